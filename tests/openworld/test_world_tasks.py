from typing import Any

import numpy as np
import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.openworld.world import PARTS, OpenWorld
from kgprobe.openworld.world_tasks import all_task, answers_per_query, tail_task
from worlds import as_set, random_world


def answers(world: OpenWorld, part: str) -> dict[tuple[int, int], set[int]]:
    """The answers of each tail query in a part, by a loop."""
    found: dict[tuple[int, int], set[int]] = {}
    for head, relation, tail in as_set(getattr(world, part)):
        found.setdefault((head, relation), set()).add(tail)
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("least_answers", "least_known"), [(1, 1), (2, 1), (3, 2)])
def test_tail_queries_have_as_many_answers_as_asked_for(seed: int, least_answers: int, least_known: int) -> None:
    world = random_world(seed)
    known, missing = answers(world, "known"), answers(world, "missing")
    fit = {
        query
        for query in known
        if len(known[query]) >= least_known and len(known[query] | missing.get(query, set())) >= least_answers
    }
    task = tail_task(world, 10**6, least_answers, least_known)
    assert as_set(task.known) == {(*query, tail) for query in fit for tail in known[query]}
    assert as_set(task.missing) == {(*query, tail) for query in fit for tail in missing.get(query, ())}
    assert task.sides == "tail"
    assert task.settings["queries"] == len(fit)
    assert task.ranked == 2 * len(task.known) + len(task.missing)


def test_as_many_queries_are_drawn_as_asked_for_with_all_their_answers() -> None:
    world = random_world()
    every = tail_task(world, 10**6, 1)
    drawn = tail_task(world, 5, 1, seed=1)
    queries = {fact[:2] for fact in as_set(drawn.known)}
    assert len(queries) == 5 == drawn.settings["queries"]
    for part in ("known", "missing"):
        assert as_set(getattr(drawn, part)) == {f for f in as_set(getattr(every, part)) if f[:2] in queries}


def test_the_same_seed_draws_the_same_queries_and_another_one_others() -> None:
    world = random_world()
    one, again, other = (as_set(tail_task(world, 5, 1, seed=seed).known) for seed in (1, 1, 2))
    assert one == again != other


def test_each_query_is_drawn_as_often() -> None:
    world = random_world()
    size = tail_task(world, 10**6, 1).settings["queries"]
    often: dict[tuple[int, ...], int] = {}
    for seed in range(400):
        for query in {fact[:2] for fact in as_set(tail_task(world, 5, 1, seed=seed).known)}:
            often[query] = often.get(query, 0) + 1
    chance = 5 / size
    assert len(often) == size
    assert max(abs(n - 400 * chance) for n in often.values()) < 4.5 * np.sqrt(400 * chance * (1 - chance))


def test_queries_that_the_world_names_are_taken_as_they_are() -> None:
    world = OpenWorld(
        "named", 4, 1, train=[[3, 0, 0]], known=[[0, 0, 1], [1, 0, 1]], missing=[[1, 0, 2]], queries=[[1, 0], [0, 0]]
    )  # type: ignore[arg-type]
    task = tail_task(world, queries=1, least_answers=10)
    assert (len(task.known), len(task.missing), task.settings) == (2, 1, {"kind": "tail", "queries": 2})


def test_a_named_query_without_a_known_answer_is_an_error() -> None:
    world = OpenWorld("named", 4, 1, train=[], known=[[0, 0, 1]], missing=[[1, 0, 2]], queries=[[0, 0], [1, 0]])  # type: ignore[arg-type]
    with pytest.raises(DataError, match="1 of 2 tail queries have no known answer"):
        tail_task(world)


def test_where_no_query_has_that_many_answers_the_most_is_named() -> None:
    with pytest.raises(DataError, match="no tail query has 50 hard answers, 1 of them known") as caught:
        tail_task(random_world(), least_answers=50)
    most = max(
        len(a | answers(random_world(), "missing").get(q, set())) for q, a in answers(random_world(), "known").items()
    )
    assert f"largest number of hard answers of a query is {most}" in caught.value.problems[0]


@pytest.mark.parametrize("triples", [0, 1000])
def test_all_hard_triples_are_an_ordinary_test_set(triples: int) -> None:
    world = random_world()
    task = all_task(world, triples)
    assert as_set(task.known) == as_set(world.known)
    assert as_set(task.missing) == as_set(world.missing)
    assert task.ranked == 2 * (2 * len(world.known) + len(world.missing))


def test_a_sample_is_of_known_and_missing_triples_together() -> None:
    world = random_world()
    task, again, other = (all_task(world, 20, seed) for seed in (1, 1, 2))
    drawn = as_set(task.known) | as_set(task.missing)
    assert len(drawn) == 20 == task.settings["facts"]
    assert as_set(task.known) <= as_set(world.known)
    assert as_set(task.missing) <= as_set(world.missing)
    assert drawn == as_set(again.known) | as_set(again.missing) != as_set(other.known) | as_set(other.missing)


def test_some_tail_queries_are_no_ordinary_test_set() -> None:
    world = OpenWorld("named", 4, 1, train=[], known=[[0, 0, 1]], missing=[], queries=[[0, 0]])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no ordinary test set"):
        all_task(world)


def test_a_test_set_needs_a_known_fact() -> None:
    with pytest.raises(DataError, match="none of the triples to rank is known"):
        all_task(OpenWorld("none", 4, 1, train=[], known=[], missing=[[0, 0, 1]]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "numbers",
    [{"queries": 0, "least_answers": 0, "least_known": 0, "seed": -1}, {"least_known": 0}],
    ids=["all", "one"],
)
def test_numbers_that_make_no_sense_are_all_listed(numbers: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        tail_task(random_world(), **numbers)
    assert [problem.split(" ")[0] for problem in caught.value.problems] == list(numbers)


@pytest.mark.parametrize("seed", range(3))
def test_answers_per_query_are_counted_by_part(seed: int) -> None:
    world = random_world(seed)
    task = tail_task(world, 8, 2, seed=seed)
    queries = {fact[:2] for fact in as_set(task.known)}
    found = answers_per_query(world, task)
    assert found["queries"] == len(queries)
    for part in PARTS:
        assert found[part] == pytest.approx(sum(len(answers(world, part).get(q, ())) for q in queries) / len(queries))
