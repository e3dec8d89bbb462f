"""Fast scores: their bounds hold, and what they leave unclear is settled at every level of accuracy."""

from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

import torch

from adversarial import QUERIES, TABLES, Floats, normal
from kgprobe.predict.backends import fused_counts
from kgprobe.predict.backends.backend import NumpyBackend
from kgprobe.predict.backends.fused_counts import FusedCount, _DotTable, _Launch, _NormTable
from kgprobe.predict.backends.triton_backend import Tile, Tiles, TritonBackend
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity
from ranking import SMALL, brute_force, counted, graph_of, vectors

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

ROWS, COLUMNS = 20, 90


def counter_of(
    kind: str, similarity: Similarity, dimension: int = 24, room: int | None = None, columns: int = COLUMNS
) -> tuple[FusedCount, Floats, Floats]:
    """A counter whose targets are candidates of a table, the queries and the table."""
    rng = np.random.default_rng(7)
    queries = QUERIES.get(kind, normal)(rng, ROWS, dimension)
    table = TABLES[kind](rng, columns, dimension)
    backend = TritonBackend(DEVICE, SMALL, room)
    query = backend.integers(np.arange(ROWS))
    targets = backend.placed(table[rng.integers(0, columns, ROWS)])
    return FusedCount(backend, similarity, backend.placed(queries), query, targets, 1 << 20), queries, table


def canonical(similarity: Similarity, queries: Floats, table: Floats) -> Floats:
    row, column = (index.ravel() for index in np.indices((len(queries), len(table))))
    return NumpyBackend().canonical(similarity, queries, row, table, column).reshape(len(queries), len(table))


def unclear_pairs(listed: Any, found: Any, columns: int) -> Any:
    """Flags [rows, columns] of the pairs in the lists."""
    flags = np.zeros((listed.shape[1], columns + 64), dtype=bool)
    for (program, row), number in np.ndenumerate(listed):
        for entry in found[row, program, :number].tolist():
            bits = [bit for bit in range(32) if entry >> bit & 1]
            assert bits
            places = np.array(bits) + 32 * (entry >> 32)
            assert not flags[row, places].any()
            flags[row, places] = True
    assert not flags[:, columns:].any()
    return flags[:, :columns]


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(
    ("similarity", "level"), [(Dot(), 0), (Dot(), 1), *((GroupNorm(k, 9.0), 0) for k in (1, 2, 3, 8, None))], ids=str
)
def test_bounds_hold_for_fast_scores(kind: str, similarity: Similarity, level: int) -> None:
    """A candidate that is counted beats the target, one that is not listed does not tie, whatever the vectors are."""
    counter, queries, table = counter_of(kind, similarity)
    candidates = counter.backend.placed(table)
    compared: Any = (_DotTable if isinstance(similarity, Dot) else _NormTable)(counter, candidates)
    above, listed, found = (values.cpu() for values in compared.compare(counter._rows, level, COLUMNS))
    risky = compared.risky(counter._rows).cpu().numpy()
    unclear = unclear_pairs(listed.numpy(), found.numpy(), COLUMNS)
    with np.errstate(invalid="ignore", over="ignore"):
        scores = canonical(similarity, queries, table)
    own = counter.own.cpu().numpy()[:, None]
    assert not above.numpy()[risky].any()
    assert not unclear[risky].any()
    decided = ~unclear & ~risky[:, None]
    assert (above.numpy()[~risky] == (decided & (scores > own)).sum(axis=1)[~risky]).all()
    assert not (decided & (scores == own)).any()


@pytest.mark.parametrize("level", [0, 1])
def test_few_pairs_are_unclear_on_random_vectors(level: int) -> None:
    counter, _, table = counter_of("random", Dot(), 64, columns=2000)
    compared = _DotTable(counter, counter.backend.placed(table))
    _, listed, found = compared.compare(counter._rows, level, 2000)
    share = unclear_pairs(listed.cpu().numpy(), found.cpu().numpy(), 2000).mean()
    # The target itself always is. The interpreter truncates, so that bounds are wider than on a GPU.
    assert 1 / 2000 <= share < (0.001 if level else 0.05)


@pytest.mark.parametrize("similarity", [Dot(), GroupNorm(1), GroupNorm(2, 12.0)], ids=str)
@pytest.mark.parametrize(
    "kind", ["random", "duplicated", "mixed", pytest.param("one ulp apart", marks=pytest.mark.slow)]
)
def test_lists_that_are_too_short(kind: str, similarity: Similarity) -> None:
    """Rows go on to the next level, and to canonical scores alone after the last."""
    graph = graph_of(seed=5, entities=70, facts=24)
    model = vectors(kind, similarity, graph, 8, seed=2)
    assert counted(model, graph, TritonBackend(DEVICE, SMALL, room=1)) == brute_force(model, graph)


def test_every_level_is_used_when_lists_are_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    levels: list[tuple[int, int]] = []
    plain = FusedCount._count

    def watched(self: FusedCount, table: Any, rows: Any, level: int) -> Any:
        left = plain(self, table, rows, level)
        levels.append((level, len(left)))
        return left

    monkeypatch.setattr(FusedCount, "_count", watched)
    monkeypatch.setattr(
        _DotTable, "first_levels", lambda table: [table.counter._rows.index, table.counter._rows.index[:0]]
    )
    counter, queries, table = counter_of("duplicated", Dot(), room=1)
    counter.add(counter.backend.placed(table))
    assert levels == [(0, ROWS), (1, ROWS)]
    scores, own = canonical(Dot(), queries, table), counter.own.cpu().numpy()[:, None]
    assert counter.totals[:, 0].tolist() == (scores > own).sum(axis=1).tolist()
    assert counter.totals[:, 1].tolist() == (scores == own).sum(axis=1).tolist()


def test_rows_with_many_unclear_candidates_begin_with_three_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_counts, "_SAMPLE", 64)
    counter, queries, table = counter_of("random", Dot(), 16, columns=600)
    own = counter.own.cpu().numpy()
    scores = canonical(Dot(), queries, table)
    first, second = _DotTable(counter, counter.backend.placed(table)).first_levels()
    assert len(first)
    assert len(second)
    assert sorted([*first.tolist(), *second.tolist()]) == list(range(ROWS))
    spread = np.abs(scores - own[:, None]) < 0.05
    assert spread[second.tolist()].mean() > spread[first.tolist()].mean()
    counter.add(counter.backend.placed(table))
    assert counter.totals[:, 0].tolist() == (scores > own[:, None]).sum(axis=1).tolist()


def test_few_candidates_are_compared_by_three_products_at_once() -> None:
    counter, _, table = counter_of("random", Dot())
    counter.backend.tiles = Tiles()
    first, second = _DotTable(counter, counter.backend.placed(table)).first_levels()
    assert (len(first), len(second)) == (0, ROWS)


def test_ranges_add_up() -> None:
    whole, _, table = counter_of("random", Dot())
    parts, _, _ = counter_of("random", Dot())
    whole.add(whole.backend.placed(table))
    for start in range(0, COLUMNS, 33):
        parts.add(parts.backend.placed(table[start : start + 33]))
    parts.add(parts.backend.placed(table[:0]))
    assert parts.totals.tolist() == whole.totals.tolist()


@pytest.mark.parametrize("memory", [1 << 14, 1 << 17, 1 << 20])
@pytest.mark.parametrize("counting", [3, 1 << 20])
def test_lists_fit_into_memory(memory: int, counting: int) -> None:
    """However many programs there would be otherwise."""
    counter, _, _ = counter_of("random", Dot())
    assert counter.room(columns=90, rows=20) == 3
    assert counter.room(columns=1 << 30, rows=1 << 30) == 1
    counter.memory, rows = memory, counter._rows
    counter.backend.tiles = SMALL._replace(counting=counting)
    launch = _Launch.of(counter, rows, 1 << 15, Tile(16, 32, 4), counter.room(1 << 15, rows.padded))
    copies = launch.counts.nbytes * 5 // 8  # of one of the two counts, and a flag for each list
    assert memory // 4 < launch.counts.nbytes + copies + launch.found.nbytes <= memory
