"""Runs of both models of rules on a small family, trained once for all tests that only read them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import kgprobe as kp
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.family_tree import family_tree
from kgprobe.models.rules.explanations import RuleScorer
from kgprobe.train.trained_models import open_rules
from rule_trainings import QUICK
from runs import TARGETS

RELATIONS = ("parentOf", "childOf", "siblingOf", "grandchildOf", "brotherOf")

MODELS = ("rnnlogic", "plogicnet")

SEEDS = (3, 8)

_LEARNED = {
    "rnnlogic": {"epochs": 8, "learning_rate": 0.02, "rules_per_relation": 12, "sampled_rules": 12},
    "plogicnet": {"epochs": 4, "learning_rate": 0.01},
    "distmult": {"epochs": 1, "dimension": 2},
}


@dataclass(frozen=True)
class Kept:
    """A run in a folder, and the graph that it has learned, which lies beside it under its own name."""

    run: Path
    graph: Path

    @property
    def ranks(self) -> Path:
        return self.run / "ranks.parquet"

    @property
    def scorer(self) -> RuleScorer:
        return _scorer(self.run)


@cache
def family() -> KnowledgeGraph:
    """One family, with five relations."""
    return kp.load_graph(_folder() / "kin")


@cache
def kept_run(model: str) -> Kept:
    """A run of a model, with two targets and two seeds."""
    graph, run = _folder() / "kin", _folder() / model
    common = {"batch_size": 64, "validate_every": 2, "patience": 0, "select": list(TARGETS), "seeds": list(SEEDS)}
    kp.fit(model, graph, run, threads=1, **common | QUICK.get(model, {}) | _LEARNED[model])
    return Kept(run, graph)


@cache
def _scorer(run: Path) -> RuleScorer:
    return open_rules(run, family()).scorer


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="kgprobe-rules-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _kin().write(folder / "kin")
    return folder


def _kin() -> KnowledgeGraph:
    """A family of forty people and a few of its relations, one of them with a comma in its name."""
    whole = family_tree(trees=1, people_per_tree=40)
    relation = {label: number for number, label in enumerate(whole.relation_label(range(whole.num_relations)))}
    chosen = [relation[label] for label in RELATIONS]
    names = [label.replace("grandchildOf", "grandchild, of") for label in RELATIONS]
    splits = {name: triples[np.isin(triples[:, 1], chosen)] for name, triples in whole.splits.items()}
    for triples in splits.values():
        triples[:, 1] = np.argsort(chosen)[np.searchsorted(np.sort(chosen), triples[:, 1])]
    return KnowledgeGraph.from_triples(
        **splits, num_entities=whole.num_entities, entity_labels=whole.entity_labels, relation_labels=names
    )
