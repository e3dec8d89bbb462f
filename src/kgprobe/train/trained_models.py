"""Trained runs and checkpoints as models that can be ranked and explained."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgprobe.errors import DataError, UsageError, naming, nearest
from kgprobe.graph import GraphLike, KnowledgeGraph, as_graph, load_graph
from kgprobe.graph.name_matching import NamesLike, as_sources
from kgprobe.metrics import parse
from kgprobe.models.rules.explanations import Answers, Explainer, RuleScorer
from kgprobe.models.rules.written_queries import Vocabulary
from kgprobe.predict import Model, Opening
from kgprobe.predict.adapters.opening import is_trained
from kgprobe.ranks import Ranks, TrainingInfo
from kgprobe.train.checkpoints import Checkpoint, as_json
from kgprobe.train.fitting import training_info
from kgprobe.train.learners import trained_run
from kgprobe.train.run_files import best_path, read_best, read_run
from kgprobe.train.run_records import other_graph
from kgprobe.train.settings import Settings


@dataclass(frozen=True, eq=False)
class StoredCheckpoint:
    """A checkpoint and its file.

    Attributes:
        path: The file.
        checkpoint: Its content.
    """

    path: Path
    checkpoint: Checkpoint

    @classmethod
    def find(cls, path: Path, select: str | None = None, seed: int | None = None) -> StoredCheckpoint:
        """Read a checkpoint file, or the best checkpoint of a run.

        Args:
            path: A run directory, or a checkpoint in it.
            select: For a run, the selection metric; None for the first.
            seed: For a run, the seed; None for the first.

        Raises:
            UsageError: It is not a run, or has no such checkpoint.
            DataError: The run or the file is damaged.
        """
        require_trained(path)
        if path.is_dir():
            settings, _ = read_run(path)
            target, chosen = _choice(path, settings, select, seed)
            _require_validated(path, settings)
            return cls(best_path(path, target, chosen), read_best(path, settings, target, chosen))
        if select is not None or seed is not None:
            remedy = "leave out `select` and `seed`"
            raise UsageError(f"{path}: a checkpoint has one metric and one seed", remedy=remedy)
        return cls(path, Checkpoint.read(path))

    def model(self, graph: KnowledgeGraph, *, other_test: bool = False) -> Model:
        """The model; with ``other_test``, the test split may differ from that of the training graph.

        Raises:
            DataError: It was trained on another graph, or its weights do not fit its settings.
        """
        checkpoint, settings = self.checkpoint, self.checkpoint.settings
        if problems := other_graph(checkpoint.graph, graph, other_test=other_test):
            raise DataError(f"{self.path}: this checkpoint is of another graph", problems, "use the training graph")
        training = training_info(settings, checkpoint.target, {checkpoint.seed: checkpoint.facts})
        with naming(self.path):
            scorer = trained_run(settings, graph, checkpoint.tensors)
            return Model(settings.model, scorer, training=training, files=(self.path,))


def require_trained(path: Path) -> None:
    """Refuse a path that is neither a run nor a checkpoint."""
    if not is_trained(path):
        problem = "it holds neither" if path.exists() else "there is no such file or directory"
        remedy = "name a run of 'kgprobe train', or a checkpoint in it"
        raise UsageError(f"{path}: not a run or checkpoint", [problem], remedy)


def _choice(run: Path, settings: Settings, select: str | None, seed: int | None) -> tuple[str, int]:
    """The selection metric and the seed of a checkpoint of a run."""
    target = settings.select[0] if select is None else str(parse(select))
    chosen = settings.seeds[0] if seed is None else seed
    problems = []
    if target not in settings.select:
        problems.append(f"{target} is not among its selection metrics{nearest(target, settings.select)}")
    if chosen not in settings.seeds:
        problems.append(f"it has no seed {chosen}; there are: {', '.join(map(str, settings.seeds))}")
    if problems:
        raise UsageError(f"{run}: this run has no such checkpoint", problems)
    return target, chosen


def _require_validated(run: Path, settings: Settings) -> None:
    path = best_path(run, settings.select[0], settings.seeds[0])
    if not path.exists():
        problem = f"{path.relative_to(run)} is missing: the run has not reached its first validation"
        raise DataError(f"{run}: this run has no checkpoint", [problem], "resume it: kgprobe train --resume")


def open_trained(path: Path, opening: Opening) -> Model:
    """The model of a checkpoint, or of a run: the best checkpoint of its first seed for its first selection metric.

    Raises:
        DataError: The file is damaged, is not a checkpoint, or belongs to another graph.
    """
    return StoredCheckpoint.find(path).model(opening.graph, other_test=opening.other_test)


@dataclass(frozen=True, eq=False)
class RuleRun:
    """A trained rule-based model.

    Attributes:
        name: Name of the model.
        seed: The seed of the run.
        checkpoint: The checkpoint file.
        scorer: The model.
        graph: The training graph.
    """

    name: str
    seed: int
    checkpoint: Path
    scorer: RuleScorer
    graph: KnowledgeGraph


def open_rules(
    path: str | os.PathLike[str],
    graph: GraphLike | None = None,
    *,
    names: NamesLike | Sequence[NamesLike] = (),
    select: str | None = None,
    seed: int | None = None,
) -> RuleRun:
    """Open the rule-based model of a run or of one of its checkpoints.

    Args:
        path: A run directory, or a checkpoint in it.
        graph: The training graph; None to look it up by the name recorded in the run.
        names: Names of entities and relations for people, as for `KnowledgeGraph.with_names`.
        select: For a run, the selection metric of the checkpoint; None for the first.
        seed: For a run, the seed; None for the first.

    Raises:
        UsageError: It is not a run, it has no such checkpoint, or its model has no rules.
        DataError: The run is damaged, or belongs to another graph.
    """
    stored = StoredCheckpoint.find(Path(path), select, seed)
    known = _by_name(stored) if graph is None else as_graph(graph)
    model = stored.model(known)
    if not isinstance(model.scorer, RuleScorer):
        raise UsageError(
            f"{path}: {model.name} has no rules",
            ["it is an embedding model"],
            "train a rule-based model: kgprobe train rnnlogic, or kgprobe train plogicnet",
        )
    return RuleRun(model.name, stored.checkpoint.seed, stored.path, model.scorer, known.with_names(*as_sources(names)))


def _by_name(stored: StoredCheckpoint) -> KnowledgeGraph:
    """The training graph of a checkpoint, looked up by its name."""
    learned = stored.checkpoint.graph
    name = str(learned["name"])
    try:
        graph = load_graph(name)
    except DataError as error:
        raise DataError(f"{stored.path}: its graph was not found", [error.title, *error.problems], _NAME_IT) from None
    if problems := other_graph(learned, graph):
        raise DataError(f"{stored.path}: it was trained on another graph than {name}", problems, _NAME_IT)
    return graph


_NAME_IT = "give the training graph as `graph`"


def rule_runs(
    paths: Sequence[Path], tables: Mapping[str, Ranks], graph: KnowledgeGraph | None = None
) -> dict[str, RuleRun]:
    """The rule-based model behind each rank table that one of these runs has produced.

    Args:
        paths: Runs of rule-based models, or checkpoints.
        tables: Rank tables by name of their model.
        graph: The training graph; None to look it up by its name.

    Raises:
        UsageError: A run has produced none of the tables, or has no rules.
        DataError: A run is damaged, or belongs to another graph.
    """
    runs: dict[str, RuleRun] = {}
    unused = []
    for path in paths:
        require_trained(path)
        own = dict(_opened(path, tables, graph))
        unused += [] if own else [f"{path} has produced none of them"]
        runs |= own
    if unused:
        title = f"no rank table belongs to these runs; the rank tables are of {', '.join(tables)}"
        raise UsageError(title, unused, "give the rank files of these runs, such as RUN/ranks.parquet")
    return runs


def _opened(path: Path, tables: Mapping[str, Ranks], graph: KnowledgeGraph | None) -> Iterator[tuple[str, RuleRun]]:
    open_made = _ranked_by_run if path.is_dir() else _of_checkpoint
    for name, table in tables.items():
        training = table.info.training
        if training is not None and (run := open_made(path, training, graph)) is not None:
            yield name, run


def _ranked_by_run(path: Path, training: TrainingInfo, graph: KnowledgeGraph | None) -> RuleRun | None:
    settings, _ = read_run(path)
    other = training.settings != as_json(settings.flat()) or training.selected_by not in settings.select
    if other or not training.checkpoints:
        return None
    return open_rules(path, graph, select=training.selected_by, seed=training.checkpoints[0].seed)


def _of_checkpoint(path: Path, training: TrainingInfo, graph: KnowledgeGraph | None) -> RuleRun | None:
    own = StoredCheckpoint.find(path).checkpoint
    ranked = [(checkpoint.seed, checkpoint.epoch) for checkpoint in training.checkpoints]
    trained_alike = training.settings == as_json(own.settings.flat())
    return open_rules(path, graph) if trained_alike and (own.seed, own.facts["epoch"]) in ranked else None


def explain(
    run: str | os.PathLike[str],
    query: str,
    *,
    graph: GraphLike | None = None,
    names: NamesLike | Sequence[NamesLike] = (),
    select: str | None = None,
    seed: int | None = None,
    candidates: Sequence[str] = (),
    top: int = 5,
    rules: int = 5,
    new: bool = False,
) -> Answers:
    """The best answers of a rule-based model to a query, with the rules that support them.

    Args:
        run: A run directory, or a checkpoint in it.
        query: "head, relation, ?" or "?, relation, tail", by names, labels or ids.
        graph: The graph of the run; None to look it up by its name.
        names: Names of entities and relations for people, as for `KnowledgeGraph.with_names`.
        select: The selection metric of the checkpoint; None for the first of the run.
        seed: The seed; None for the first of the run.
        candidates: Further answers to explain, by names, labels or ids.
        top: Number of best answers.
        rules: Maximum number of rules for each answer.
        new: Whether to leave out known answers.

    Raises:
        UsageError: The run has no rules, or the query names entities or relations that the graph does not have.
        DataError: The run is damaged, or belongs to another graph.
    """
    opened = open_rules(run, graph, names=names, select=select, seed=seed)
    words = Vocabulary(opened.graph)
    question, chosen = words.question(query), words.entities(list(candidates))
    return Explainer(opened.scorer, opened.graph).answers(question, chosen, top=top, rules=rules, new=new)
