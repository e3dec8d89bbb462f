"""A small graph and models for the tests of figures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kgprobe.comparison import Lineup, line_up
from kgprobe.graph import KnowledgeGraph
from kgprobe.ranks import Ranks, merge_seeds
from kgprobe.report.figures import Inputs, Offer

ENTITIES, RELATIONS, TEST = 14, 3, 30

CANDIDATES = 5000

"""Entities of the graph; all but the first few have no triple."""

HOSTILE = (
    "$x_1$ ^2_3",
    "<script>alert('&')</script>",
    "שלום עולם",
    "\N{DNA DOUBLE HELIX} 漢字",
    "two\nlines\x00\ufffe",
)


def small_graph(
    entity_labels: Sequence[str] | None = None, relation_labels: Sequence[str] | None = None
) -> KnowledgeGraph:
    """Random triples of a few entities, the last of which is not in training; labels are given in turn."""
    rng = np.random.default_rng(7)
    every = np.stack(np.meshgrid(range(ENTITIES), range(RELATIONS), range(ENTITIES)), -1).reshape(-1, 3)
    rng.shuffle(every)
    train = every[(every[:, [0, 2]] < ENTITIES - 1).all(axis=1)][:90]
    known = {tuple(triple) for triple in train.tolist()}
    test = [triple for triple in every.tolist() if tuple(triple) not in known][:TEST]
    return KnowledgeGraph.from_triples(
        train=train,
        test=test,
        name="small",
        num_entities=CANDIDATES,
        num_relations=RELATIONS,
        entity_labels=entity_labels and [entity_labels[i % len(entity_labels)] for i in range(CANDIDATES)],
        relation_labels=relation_labels and [relation_labels[i % len(relation_labels)] for i in range(RELATIONS)],
    )


def small_ranks(graph: KnowledgeGraph, seed: int, runs: int = 3) -> Ranks:
    """Ranks of both sides of the test triples, half of them in the middle of a tie."""
    rng = np.random.default_rng(seed)
    triples = np.repeat(graph.triples("test"), 2, axis=0)
    tables = {
        run: Ranks.from_columns(
            head=triples[:, 0],
            relation=triples[:, 1],
            tail=triples[:, 2],
            side=["head", "tail"] * (len(triples) // 2),
            rank=np.floor(3000 ** (rng.random(len(triples)) ** (1 + seed % 3))) + rng.integers(0, 2, len(triples)) / 2,
            candidates=[CANDIDATES] * len(triples),
        )
        for run in range(runs)
    }
    return merge_seeds(tables) if runs > 1 else tables[0]


def small_lineup(models: Sequence[str] = ("one", "other", "third"), graph: KnowledgeGraph | None = None) -> Lineup:
    """Models with three training runs each."""
    known = graph or small_graph()
    return line_up({model: small_ranks(known, i + 1) for i, model in enumerate(models)}, graph=known)


def everything(models: Sequence[str] = ("one", "other", "third"), graph: KnowledgeGraph | None = None) -> Inputs:
    """All that any figure needs, and few values of alpha and beta."""
    known = graph or small_graph()
    offer = Offer(tuple(models), popularity=True, graph=True, alphas=(1.0, -1.0), betas=(0.0, 0.8))
    return Inputs(offer, small_lineup(models, known), known)
