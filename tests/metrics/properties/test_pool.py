import pytest

from kgprobe.metrics.properties import Property
from kgprobe.metrics.properties.pool import SIZES, pool
from kgprobe.metrics.properties.tables import RARE, Table


def _pairs(about: Property) -> list[tuple[Table, Table]]:
    return [(pool().tables[a], pool().tables[b]) for a, b in pool().pairs[about]]


def test_every_table_is_valid_and_occurs_once() -> None:
    tables = pool().tables
    assert len(set(tables)) == len(tables)
    assert all(1 <= query.rank <= query.candidates and query.candidates > 1 for table in tables for query in table)


@pytest.mark.parametrize("column", ["entity_popularity", "relation_popularity"])
def test_every_table_has_the_same_smallest_popularity(column: str) -> None:
    assert {min(getattr(query, column) for query in table) for table in pool().tables} == {RARE}


def test_optimum_and_pessimum_have_all_targets_first_or_last() -> None:
    for about, last in ((Property.fixed_optimum, False), (Property.fixed_pessimum, True)):
        tables = {table for pair in _pairs(about) for table in pair}
        assert all(query.rank == (query.candidates if last else 1) for table in tables for query in table)
        assert {table[0].candidates for table in tables if len(table) == 1} == set(SIZES)
        assert any(len({query.candidates for query in table}) > 1 for table in tables)


def test_monotonicity_worsens_one_target_and_leaves_the_rest() -> None:
    for worse, better in _pairs(Property.anti_monotone):
        assert worse[:-1] == better[:-1]
        assert worse[-1].candidates == better[-1].candidates
        assert worse[-1].rank > better[-1].rank


def test_candidate_size_is_tested_alone_and_beside_another() -> None:
    lengths = {len(table) for pair in _pairs(Property.candidate_size) for table in pair}
    assert lengths == {1, 2}
    assert all(max(q.rank for q in table) > 1 for pair in _pairs(Property.candidate_size) for table in pair)


def test_popularity_changes_nothing_but_popularity() -> None:
    for first, second in _pairs(Property.popularity):
        assert [(q.rank, q.candidates) for q in first] == [(q.rank, q.candidates) for q in second]
        assert first != second


def test_halves_and_whole_ranks_are_inside() -> None:
    inside = [query for place in pool().inside for query in pool().tables[place]]
    assert all(1 < query.rank < query.candidates for query in inside)
    assert {query.rank % 1 for query in inside} == {0, 0.5}
