"""Small studies with their ranks and verdicts, for the tests of reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import kgprobe as kp
from benches import SMALL, made_pairs
from browser import made_graph
from kgprobe.audit import audited
from kgprobe.openworld.bench_points import Points
from kgprobe.studies.study_file import Study, read_study
from kgprobe.studies.study_work import StudyResult
from kgprobe.studies.verdicts import SourceRanks, judge

CLAIMS = """
[[claims]]
name = "top-ranks"
section = "5.2"
kind = "more-ranks"
statement = "Sharp has more predictions than plain at rank 1"
graph = "made-up"
model = "sharp"
other = "plain"
low = 1
high = 1

[[claims]]
name = "case"
section = "5.3"
kind = "rare-loss"
statement = "Sharp is better than even on popular queries and worse on rare ones"
graph = "made-up"
model = "sharp"
other = "even"
alpha = 1

[[claims]]
name = "first"
section = "5.3"
kind = "place"
statement = "Sharp is the best at alpha 1"
graph = "made-up"
model = "sharp"
place = 1
alpha = 1

[[claims]]
name = "elsewhere"
section = "5.3"
kind = "place"
statement = "Sharp is the best on a graph without ranks"
graph = "absent"
model = "sharp"
place = 1
alpha = 1

[[claims]]
name = "mrr"
section = "4.1"
kind = "property"
statement = "MRR has a fixed optimum, and no fixed pessimum"
metric = "MRR"
has = ["fixed optimum"]
lacks = ["fixed pessimum"]

[[claims]]
name = "order"
section = "5.5"
kind = "keeps-order"
statement = "PROBE at alpha -1 keeps the order better than Hits@10"
metric = "PROBE(alpha=-1,beta=0)"
than = "Hits@10"
missing = 0.25
"""

STUDY = """
title = "A small study"
graphs = ["made-up", "absent"]
alphas = [1, 0, -1]
betas = [0, 0.8]
metrics = ["MRR"]
[models.plain]
[models.sharp]
[models.even]
[models.large]
"""


def small_study(folder: Path, text: str = STUDY + CLAIMS) -> Study:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return read_study(path)


def candidate_counts(graph: kp.KnowledgeGraph) -> list[int]:
    """The number of candidates that the filter leaves for both sides of every test triple."""
    known = {tuple(triple) for triple in graph.triples().tolist()}
    return [
        graph.num_entities - sum(t in known for t in _changed(head, relation, tail, graph.num_entities, side)) + 1
        for head, relation, tail in graph.triples("test").tolist()
        for side in ("head", "tail")
    ]


def _changed(head: int, relation: int, tail: int, entities: int, side: str) -> list[tuple[int, int, int]]:
    every = range(entities)
    return [(e, relation, tail) for e in every] if side == "head" else [(head, relation, e) for e in every]


def small_ranks(graph: kp.KnowledgeGraph, *, skill: float, seed: int, filtered: bool = True) -> kp.Ranks:
    """Random ranks of both sides of the test triples; the larger the skill, the more of them are small."""
    rng = np.random.default_rng(seed)
    head, relation, tail = np.repeat(graph.triples("test"), 2, axis=0).T
    size = np.array(candidate_counts(graph)) if filtered else np.full(len(head), graph.num_entities)
    side = ["head", "tail"] * (len(head) // 2)
    rank = 1 + np.floor(size * rng.random(len(head)) ** skill)
    return kp.Ranks.from_columns(head=head, relation=relation, tail=tail, side=side, rank=rank, candidates=size)


def small_tables(graph: kp.KnowledgeGraph, shift: int = 0, unfiltered: Sequence[str] = ()) -> dict[str, kp.Ranks]:
    """Three models with two training runs each; the audit objects to those that are not filtered."""
    skills = {"plain": 2.0, "sharp": 4.0, "even": 3.0}
    return {
        model: kp.merge_seeds(
            {
                run: small_ranks(graph, skill=skill, seed=shift + 10 * number + run, filtered=model not in unfiltered)
                for run in (1, 2)
            }
        )
        for number, (model, skill) in enumerate(skills.items())
    }


def small_source(
    name: str,
    graphs: Mapping[str, kp.KnowledgeGraph],
    shift: int = 0,
    *,
    worlds: bool = False,
    unfiltered: Sequence[str] = (),
) -> SourceRanks:
    """Ranks of three models on every graph; the fourth ran out of memory, and one graph has no ranks."""
    lineups = {
        name: audited(small_tables(graph, shift, unfiltered), graph=graph).lineup for name, graph in graphs.items()
    }
    missing: dict[tuple[str, str | None], str] = {("absent", None): f"{name} has no ranks of absent"}
    missing |= {(graph, "large"): "out of memory: 94 GiB are not there" for graph in graphs}
    points = {0.25: Points.of(made_pairs(), SMALL)} if worlds else {}
    return SourceRanks(name, lineups, missing, points)


def small_result(folder: Path, *, sources: int = 1, study: Study | None = None) -> StudyResult:
    """A study of made-up ranks; the first source has ranks of an open world too, and one model is not filtered."""
    read = study or small_study(folder)
    graphs = {"made-up": made_graph()}
    found = [
        small_source(f"source-{i}", graphs, 100 * i, worlds=i == 0, unfiltered=("plain",) if i == 0 else ())
        for i in range(sources)
    ]
    verdicts = [verdict for one in found for verdict in judge(read.claims, one, level=read.level)]
    missing: dict[tuple[str, str, str | None], str] = {("", "absent", None): "no such graph"}
    for one in found:
        missing |= {(one.name, *cell): reason for cell, reason in one.missing.items()}
    return StudyResult(read, folder, {one.name: one for one in found}, graphs, tuple(verdicts), missing)
