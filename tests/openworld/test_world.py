from typing import Any

import numpy as np
import pytest

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.openworld.world import PARTS, OpenWorld
from kgprobe.predict.queries import KnownFilter
from worlds import as_set, random_world


def tiny(**changes: Any) -> OpenWorld:
    parts: dict[str, Any] = {"train": [[0, 0, 1]], "known": [[0, 0, 2]], "missing": [[0, 0, 3], [1, 1, 3]]}
    return OpenWorld("tiny", 4, 2, **parts | changes)


def test_the_graphs_of_a_world_differ_in_their_test_split_alone() -> None:
    world = random_world()
    for graph in (world.graph, world.complete, world.learned):
        assert as_set(graph.triples("train")) == as_set(world.train)
        assert as_set(graph.triples("valid")) == as_set(world.valid)
    assert as_set(world.graph.triples("test")) == as_set(world.known)
    assert as_set(world.complete.triples("test")) == as_set(world.known) | as_set(world.missing)
    assert "test" not in world.learned.splits


def test_a_world_without_validation_triples_has_no_such_split() -> None:
    assert list(tiny().graph.splits) == ["train", "test"]


def test_filters_leave_out_what_is_known_and_what_is_true() -> None:
    world = random_world()
    assert world.open_filter.hash == KnownFilter.build(world.graph).hash
    assert world.closed_filter.hash == KnownFilter.build(world.complete).hash
    assert world.open_filter.names == ("train", "valid", "test")
    assert world.closed_filter.names == ("train", "valid", "test", "missing")


def test_shares_are_of_all_triples_and_of_the_hard_ones() -> None:
    world = tiny(valid=[[2, 0, 0]])
    assert world.shares == {"train": 0.2, "valid": 0.2, "known": 0.2, "missing": 0.4, "hard_missing": 2 / 3}
    assert world.sizes == {"train": 1, "valid": 1, "known": 1, "missing": 2}


def test_shares_of_triples_are_not_told_where_most_hard_triples_are_not() -> None:
    assert tiny(queries=[[0, 0]]).shares == {"hard_missing": 2 / 3}


@pytest.mark.parametrize("part", PARTS)
def test_triples_cannot_be_changed_from_inside_or_outside(part: str) -> None:
    given = np.array([[3, 1, 0]])
    world = tiny(**{part: given})
    given[:] = 0
    assert getattr(world, part).tolist() == [[3, 1, 0]]
    with pytest.raises(ValueError, match="read-only"):
        getattr(world, part)[0] = 0


def test_all_overlaps_are_named_with_an_example() -> None:
    with pytest.raises(DataError) as caught:
        tiny(train=[[0, 0, 1], [0, 0, 3]], known=[[0, 0, 1], [0, 0, 2], [0, 0, 2]])
    assert caught.value.problems == [
        "known: 1 repeated triples",
        "1 triples are in both train and known, for example (0, 0, 1)",
        "1 triples are in both train and missing, for example (0, 0, 3)",
    ]


def test_all_parts_are_checked_against_the_number_of_ids() -> None:
    with pytest.raises(DataError) as caught:
        tiny(train=[[0, 0, 9]], missing=[[0, 5, 0]], known=[[0, 0]], queries=[[0, 7], [-1, 0]])
    problems = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 5
    for part in ("train tail", "known: shape (1, 2)", "missing relation", "queries head", "queries relation"):
        assert part in problems


@pytest.mark.parametrize(
    ("queries", "message"),
    [([[0, 0], [1, 1], [0, 0]], "1 repeated queries"), ([[0, 0, 1]], "shape"), ([[0.5, 1]], "integers")],
    ids=["twice", "triples", "fractions"],
)
def test_queries_are_distinct_pairs_of_ids(queries: Any, message: str) -> None:
    with pytest.raises(DataError, match="invalid parts of a world") as caught:
        tiny(queries=queries)
    assert message in caught.value.problems[0]


def test_parts_may_be_empty() -> None:
    world = OpenWorld("empty", 2, 1, train=[[0, 0, 1]], known=[], missing=[])  # type: ignore[arg-type]
    assert world.shares["hard_missing"] == 0
    assert world.hard.shape == (0, 3)
    assert isinstance(world.complete, KnowledgeGraph)
