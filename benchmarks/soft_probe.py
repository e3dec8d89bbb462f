"""Training for a perspective against selecting by it: soft PROBE and the plain loss, side by side in one run.

    python benchmarks/soft_probe.py --graph umls --graph kinship

For each (alpha, beta), test PROBE(alpha, beta) of ComplEx at the checkpoint that is best by it on the validation facts:
trained by cross entropy (plain), by soft PROBE at that point (soft), and by either from the best plain checkpoint on.
Every loss chooses its weight of N3 (going on, its step size too) from the same list, on the validation facts; all other
settings are the same. Mean and standard deviation over the seeds, in Markdown. Test facts are ranked once a cell.

With --training, PROBE of the *training* facts instead, by vectors too short to fit all of them: what a loss is after.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import torch

import kgprobe as kp
from kgprobe.metrics.popularity_metrics import PROBE
from kgprobe.models.complex import ComplExOptions
from kgprobe.resources import Resources
from kgprobe.train.checkpoints import MemoryStorage
from kgprobe.train.embedding_learner import EmbeddingLearner
from kgprobe.train.fitting import rank_best
from kgprobe.train.settings import Settings
from kgprobe.train.trainer import TrainingResources, train
from kgprobe.train.validation import Best, Selection
from machine import describe

POINTS = [PROBE(alpha=alpha, beta=beta) for alpha, beta in ((1, 0), (0, 0), (-1, 0), (1, 0.8))]

FROM_THE_START = [{"regularisation": weight} for weight in (0.0001, 0.0003, 0.003, 0.01, 0.03, 0.06)]

GOING_ON = [{"regularisation": weight, "learning_rate": rate} for weight in (0.003, 0.03) for rate in (0.001, 0.005)]

"""What is chosen from on the validation facts."""

COLUMNS = ("plain", "soft", "plain, then plain", "plain, then soft")

EPOCHS_GOING_ON = 14


@dataclass(frozen=True)
class Outcome:
    """A training and what it kept.

    Attributes:
        settings: Its settings.
        keep: Its checkpoints.
        best: Its best validation by target and run.
    """

    settings: Settings
    keep: MemoryStorage
    best: dict[str, list[Best]]

    def score(self, point: PROBE) -> float:
        """The mean of the best validations."""
        return statistics.mean(best.score for best in self.best[str(point)])

    def epoch(self, point: PROBE) -> float:
        """The mean epoch of the best validations."""
        return statistics.mean(best.epoch for best in self.best[str(point)])


Beginning: TypeAlias = tuple[Outcome, PROBE]

"""Where a training begins: another, and the point by which its checkpoints are the best."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graph", action="append", help="umls and kinship where none is given")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--training", action="store_true", help="how well short vectors fit the training facts")
    arguments = parser.parse_args()
    print(describe(), f"torch {torch.__version__}", f"{arguments.threads} thread(s)", flush=True)
    plain = Settings(
        "ComplEx",
        ComplExOptions(dimension=64),
        objective="one_vs_all",
        loss="cross_entropy",
        reciprocal=True,
        regulariser="n3",
        optimiser="adagrad",
        learning_rate=0.05,
        batch_size=256,
        epochs=arguments.epochs,
        validate_every=2,
        patience=0,
        select=tuple(map(str, POINTS)),
        seeds=tuple(range(arguments.seeds)),
    )
    graphs = [kp.load_graph(name) for name in arguments.graph or ["umls", "kinship"]]
    resources = TrainingResources(threads=arguments.threads)
    if arguments.training:
        print_header(["graph", "loss", *map(str, POINTS)])
        for graph in graphs:
            compare_fits(graph, plain, resources)
    else:
        print_header(["graph", "(alpha, beta)", *COLUMNS, "N3 of each", "epoch of each"])
        for graph in graphs:
            compare(graph, plain, resources)


def print_header(header: list[str]) -> None:
    print(f"\n| {' | '.join(header)} |\n|{'---|' * len(header)}", flush=True)


def compare_fits(graph: kp.KnowledgeGraph, plain: Settings, resources: TrainingResources) -> None:
    """Print how well a plain model and those that go on from it fit the training facts, which stand for validation."""
    facts = graph.triples("train")
    same = kp.KnowledgeGraph.from_triples(
        facts, facts, name=graph.name, num_entities=graph.num_entities, num_relations=graph.num_relations
    )
    short = replace(plain, options=ComplExOptions(dimension=4, initial_scale=0.1), learning_rate=0.1, validate_every=10)
    first = outcome_of(same, replace(short, epochs=60), resources)
    for loss in (short, *(soft_for(short, point) for point in POINTS)):
        fit = outcome_of(same, replace(loss, epochs=60), resources, (first, POINTS[1]))
        name = f"soft ({loss.loss_alpha:g}, {loss.loss_beta:g})" if loss.loss == "soft_probe" else "plain"
        print(f"| {' | '.join([graph.name, name, *(f'{fit.score(point):.4f}' for point in POINTS)])} |", flush=True)


def soft_for(plain: Settings, point: PROBE) -> Settings:
    return replace(plain, loss="soft_probe", loss_alpha=point.alpha, loss_beta=point.beta_e or 0.0)


def compare(graph: kp.KnowledgeGraph, plain: Settings, resources: TrainingResources) -> None:
    """Print the rows of a graph."""
    by_plain = trained(graph, plain, resources)
    for point in POINTS:
        soft = soft_for(plain, point)
        first = chosen(by_plain, point)
        going_on = [replace(loss, epochs=EPOCHS_GOING_ON) for loss in (plain, soft)]
        tuned = [trained(graph, settings, resources, (first, point)) for settings in going_on]
        outcomes = [first, *(chosen(own, point) for own in (trained(graph, soft, resources), *tuned))]
        weights = ", ".join(f"{outcome.settings.regularisation:g}" for outcome in outcomes)
        epochs = ", ".join(f"{outcome.epoch(point):.0f}" for outcome in outcomes)
        cells = [tested(graph, outcome, point) for outcome in outcomes]
        row = [graph.name, f"({point.alpha:g}, {point.beta_e or 0:g})", *cells, weights, epochs]
        print(f"| {' | '.join(row)} |", flush=True)


def trained(
    graph: kp.KnowledgeGraph, settings: Settings, resources: TrainingResources, begin: Beginning | None = None
) -> list[Outcome]:
    """A training for each of the choices."""
    choices = GOING_ON if begin else FROM_THE_START
    return [outcome_of(graph, replace(settings, **values), resources, begin) for values in choices]


def outcome_of(
    graph: kp.KnowledgeGraph, settings: Settings, resources: TrainingResources, begin: Beginning | None = None
) -> Outcome:
    """A training from the start, or from the best checkpoints of another by a point."""
    keep = MemoryStorage()
    if begin:
        begin_from(keep, settings, graph, *begin)
    return Outcome(settings, keep, train(settings, graph, keep, resources).best)


def begin_from(keep: MemoryStorage, settings: Settings, graph: kp.KnowledgeGraph, other: Outcome, point: PROBE) -> None:
    """Let a training begin from the checkpoints that are the best of another by a point, with a fresh optimiser."""
    kept = [other.keep.load_best(str(point), seed)[0] for seed in settings.seeds]
    fresh = EmbeddingLearner(settings, graph, torch.device("cpu")).state()
    model = {f"model.{name}": torch.cat([run[name] for run in kept]) for name in kept[0]}
    selection = Selection(POINTS, len(settings.seeds), settings.patience).state()
    progress = {"epoch": 0, "selection": selection, "rows": [], "seconds": 0.0, "training_seconds": 0.0}
    keep.save_state(fresh | model, progress)


def chosen(outcomes: Sequence[Outcome], point: PROBE) -> Outcome:
    """The one of the best validation."""
    return max(outcomes, key=lambda outcome: outcome.score(point))


def tested(graph: kp.KnowledgeGraph, outcome: Outcome, point: PROBE) -> str:
    """Mean and standard deviation of the test scores over the seeds."""
    ranks = rank_best(outcome.keep, outcome.settings, graph, str(point), Resources(threads=1))
    (score,) = kp.scores(ranks, [point])
    return f"{score.value:.4f} ± {score.std or 0:.4f}"


if __name__ == "__main__":
    main()
