"""Statistics of a graph: sizes, degrees, and defects of its splits such as test leakage."""

from __future__ import annotations

from itertools import combinations
from typing import TypeAlias

import numpy as np

from kgprobe.arrays import AnyInts, Grouped, Ints, pair_keys
from kgprobe.graph.knowledge_graph import KnowledgeGraph
from kgprobe.graph.popularity import entity_degrees
from kgprobe.graph.triple_sources import SPLITS
from kgprobe.graph.triple_streams import KeySet, chunks, distinct_rows

Statistics: TypeAlias = dict[str, int | float | str | None]


def statistics(graph: KnowledgeGraph) -> Statistics:
    """Sizes, degrees and defects of a graph, as one flat row.

    - ``entities``, ``relations``, ``triples`` (of all splits), ``train``, ``valid``, ``test``: their numbers.
    - ``mean_degree``, ``max_degree``: number of times an entity is head or tail in train; a self-loop counts
      twice; the mean is over all entities, including those that are not in train.
    - ``unseen_entities``: entities of valid or test that are not in train.
    - ``duplicates``: rows that repeat an earlier row of their split, over all splits.
    - ``overlap_train_valid``, ``overlap_train_test``, ``overlap_valid_test``: distinct triples in both.
    - ``self_loops``: rows of train whose head is their tail.
    - ``inverse_leakage``: share of the test triples (h, r, t) for which train has (t, r', h) with any r'.
    - ``symmetric_leakage``: the same with r' = r.
    - ``duplicate_relation_leakage``: the same with (h, r', t) and r' other than r.
    - ``negatives``: triples of all splits that are labelled as false; they are not among the ``triples``.

    None means unknown: shares without test triples, and everything that needs the training triples if they are
    missing (their counts still give their number, the degrees and the unseen entities).

    Example:
        >>> row = statistics(KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 1]], test=[[1, 0, 0]]))
        >>> row["mean_degree"], row["max_degree"], row["self_loops"], row["symmetric_leakage"]
        (2.0, 3, 1, 1.0)
    """
    counts = graph.train_counts
    sizes = {split: len(graph.triples(split)) for split in SPLITS}
    if counts is not None:
        sizes["train"] = counts.num_triples
    return {
        "graph": graph.name,
        "entities": graph.num_entities,
        "relations": graph.num_relations,
        "triples": sum(sizes.values()),
        **sizes,
        **_degrees(graph),
        **_defects(graph),
        "negatives": sum(len(triples) for triples in graph.negative_splits.values()),
    }


def _degrees(graph: KnowledgeGraph) -> Statistics:
    if graph.has_train:
        degree = entity_degrees(graph.triples("train"), graph.num_entities)
    elif graph.train_counts is not None:
        degree = graph.train_counts.degree
    else:
        return dict.fromkeys(("mean_degree", "max_degree", "unseen_entities"))
    held_out = graph.triples("valid", "test")[:, [0, 2]]
    return {
        "mean_degree": float(degree.mean()) if len(degree) else None,
        "max_degree": int(degree.max(initial=0)),
        "unseen_entities": int((degree[np.unique(held_out)] == 0).sum()),
    }


def _defects(graph: KnowledgeGraph) -> Statistics:
    train, valid, test = (graph.triples(split) for split in SPLITS)
    index = {split: _by_ends(graph, graph.triples(split)) for split in SPLITS[1:]}
    # Of the training triples, which may be very many, only those are indexed that are compared with others.
    ends = [_ends(graph, triples[:, 0], triples[:, 2]) for triples in (valid, test)]
    asked = KeySet(np.concatenate([*ends, _ends(graph, test[:, 2], test[:, 0])]))
    near = [some[asked.likely(_ends(graph, some[:, 0], some[:, 2]))] for some in chunks(train)]
    index["train"] = _by_ends(graph, np.concatenate([train[:0], *near]))
    sizes = graph.num_entities, graph.num_relations, graph.num_entities
    distinct = {split: len(groups.values) for split, groups in index.items()}
    distinct["train"] = sum(len(counts) for _, counts in distinct_rows([list(train.T)], sizes))
    row: Statistics = {"duplicates": sum(len(graph.triples(split)) - distinct[split] for split in SPLITS)}
    for one, other in combinations(SPLITS, 2):
        row[f"overlap_{one}_{other}"] = int(index[one].contains(*index[other].pairs()).sum())
    row["self_loops"] = int((train[:, 0] == train[:, 2]).sum())
    row |= _leakage(index["train"], test, graph.num_entities)
    unknown = set() if graph.has_train else set(row) - {"overlap_valid_test"}
    return {name: None if name in unknown else value for name, value in row.items()}


def _ends(graph: KnowledgeGraph, one: AnyInts, other: AnyInts) -> Ints:
    return pair_keys(one, other, graph.num_entities)


def _by_ends(graph: KnowledgeGraph, triples: AnyInts) -> Grouped:
    """The relations between each head and tail."""
    head, relation, tail = triples.T
    return Grouped.build(_ends(graph, head, tail), relation, graph.num_entities**2, graph.num_relations)


def _leakage(train: Grouped, test: AnyInts, num_entities: int) -> Statistics:
    head, relation, tail = test.T
    ends, swapped = pair_keys(head, tail, num_entities), pair_keys(tail, head, num_entities)
    leaks = {
        "inverse_leakage": train.count(swapped) > 0,
        "symmetric_leakage": train.contains(swapped, relation),
        "duplicate_relation_leakage": train.count(ends) > train.contains(ends, relation),
    }
    return {name: float(leak.mean()) if len(test) else None for name, leak in leaks.items()}
