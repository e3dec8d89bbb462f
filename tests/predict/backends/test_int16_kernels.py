"""Embeddings as integers of 16 bits: how they are rounded and packed, their exact products, and the bounds."""

import re
from fractions import Fraction
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from adversarial import TABLES, Floats
from kgprobe.predict.backends import int16_kernels as kernels
from kgprobe.predict.backends.int16_kernels import ANY_CPU, INSTRUCTIONS, PANEL, ROWS, Instructions, Packed, Targets
from kgprobe.predict.scorers import Dot, Rounding

FEATURES = kernels.cpu_target.target_context.codegen().magic_tuple()[2].split(",")

USABLE = [ANY_CPU, *(each for each in INSTRUCTIONS if each.feature in FEATURES)]

Integers = NDArray[np.int64]


def table(kind: str, rows: int, dimension: int) -> Floats:
    return TABLES[kind](np.random.default_rng(3), rows, dimension)


def integers(packed: Packed, group: int, rows: int, dimension: int) -> Integers:
    """The rounded coordinates, in the order of the embeddings."""
    pairs = -(-dimension // 2)
    short = packed.words.view(np.int16).reshape(-1, pairs, group, 2)
    return short.transpose(0, 2, 1, 3).reshape(-1, 2 * pairs)[:rows].astype(np.int64)


def words(short: Integers, group: int) -> NDArray[np.int32]:
    """Packed integers of any value; the rows are a multiple of the group."""
    rows, dimension = short.shape
    grouped = short.reshape(rows // group, group, dimension // 2, 2).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(grouped).astype(np.int16).reshape(-1).view(np.int32)


@pytest.mark.parametrize(("group", "span"), [(ROWS, 1), (PANEL, PANEL)], ids=["queries", "candidates"])
@pytest.mark.parametrize("dimension", [1, 2, 33, 64])
@pytest.mark.parametrize("kind", TABLES)
def test_a_factor_and_the_nearest_integers(kind: str, dimension: int, group: int, span: int) -> None:
    """Against the definition, with norms of the longest embedding of each span."""
    rows = 150
    embeddings = table(kind, rows, dimension)
    packed = Packed.of(embeddings, group, span)
    found = integers(packed, group, rows, dimension)
    exact = embeddings.astype(np.float64)
    sizes = np.sqrt((exact**2).sum(1))
    parts = [slice(start, start + span) for start in range(0, rows, span)]
    np.testing.assert_allclose(packed.norm, sizes, rtol=1e-12)
    assert len(packed.factor) == len(packed.size) == len(packed.lost) == len(parts)
    for number, part in enumerate(parts):
        factor, size, lost = packed.factor[number], packed.size[number], packed.lost[number]
        if not np.isfinite(exact[part]).all():
            assert (factor, lost) == (0, np.inf)
            continue
        assert size == pytest.approx(sizes[part].max(), rel=1e-12)
        some = found[part]
        assert (some[:, dimension:] == 0).all()
        assert np.abs(some).max() <= 32767
        change = exact[part] * factor - some[:, :dimension]
        assert np.abs(change).max() <= 0.5 + 1e-6
        assert lost == pytest.approx(np.sqrt((change**2).sum(1)).max() / factor, rel=1e-9)
        if size:  # no larger factor would do
            largest = np.abs(exact[part]).max()
            assert max(factor * largest / 32766, factor * size / (46339 - np.sqrt(dimension) / 2)) == pytest.approx(1)


@pytest.mark.parametrize("dimension", [1, 2, 3, 40, 1000, 20_000])
def test_no_product_of_integers_exceeds_32_bits(dimension: int) -> None:
    """A product is at most that of the norms, which is largest where all coordinates are rounded away from zero."""
    rng = np.random.default_rng(dimension)
    rows = [np.ones(dimension), rng.standard_normal(dimension), np.eye(1, dimension)[0], np.full(dimension, 2.0**-140)]
    embeddings = np.float32([sign * row for row in rows for sign in (1, -1)])
    norms = []
    for group, span in ((ROWS, 1), (PANEL, PANEL)):
        found = integers(Packed.of(embeddings, group, span), group, len(embeddings), dimension)
        norms.append((found**2).sum(1).max())
    assert int(norms[0]) * int(norms[1]) < (2**31 - 1) ** 2


def compiled(used: Instructions, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The products, compiled anew for some instructions."""
    monkeypatch.setattr(kernels, "instructions", lambda: used)

    @numba.njit
    def stored(queries: Any, at: Any, candidates: Any, start: Any, pairs: Any, out: Any) -> None:
        kernels.products(queries, at, candidates, start, pairs, out)

    return stored


@pytest.mark.parametrize("used", USABLE, ids=lambda used: used.feature or "any CPU")
def test_products_are_exact(used: Instructions, monkeypatch: pytest.MonkeyPatch) -> None:
    products, rng = compiled(used, monkeypatch), np.random.default_rng(1)
    for dimension in (2, 4, 62, 256):
        most = min(32767, int(46339 / np.sqrt(dimension)))
        queries, candidates = (rng.integers(-most, most + 1, (2 * rows, dimension)) for rows in (ROWS, PANEL))
        queries[0], candidates[0] = most, -most
        out = np.full(ROWS * PANEL, 7, dtype=np.int32)
        for group in range(2):
            for panel in range(2):
                at, start = group * ROWS * dimension // 2, panel * PANEL * dimension // 2
                products(words(queries, ROWS), at, words(candidates, PANEL), start, dimension // 2, out)
                left, right = queries[group * ROWS :][:ROWS], candidates[panel * PANEL :][:PANEL]
                assert out.reshape(ROWS, PANEL).tolist() == (left @ right.T).tolist()
    text = next(iter(products.inspect_asm().values()))
    assert ("vpdpwssd" in text) == bool(used.name)
    if used.name:  # every sum stays in a register
        loop = max(re.split(r"\n\.L\w+:", text), key=lambda block: block.count("vpdpwssd"))
        assert loop.count("vpdpwssd") in (ROWS * used.vectors, 2 * ROWS * used.vectors)
        assert not re.search(r"vmov\w+\s+%[yz]mm\d+, [-\d]*\(%rsp\)", loop)


def test_the_widest_instructions_of_the_cpu_are_used() -> None:
    assert kernels.instructions() == (USABLE[1] if len(USABLE) > 1 else ANY_CPU)


@given(st.integers(0, 2**64 - 1))
def test_bits_are_those_of_the_scores(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.choice(np.int32([-(2**31), -5, 0, 3, 4, 2**31 - 1]), 2 * PANEL)
    floor, ceiling = np.sort(rng.choice(np.int32([-(2**31), -5, 0, 3, 2**31 - 1]), 2))
    reached, greater = _compared(scores, 7, floor, ceiling)
    some = scores[7 : 7 + PANEL]
    for word, flags in ((reached, some >= floor), (greater, some > ceiling)):
        assert [bool(int(word) >> i & 1) for i in range(PANEL)] == flags.tolist()


@numba.njit
def _compared(scores: Any, start: Any, floor: Any, ceiling: Any) -> Any:
    return kernels.compared(scores, start, floor, ceiling)


@given(st.lists(st.integers(0, 3 * PANEL - 1), max_size=60))
def test_pairs_are_ordered_by_panels(columns: list[int]) -> None:
    column = np.array(columns, dtype=np.int64)
    order, first = kernels.by_panels(column, 3)
    assert sorted(order.tolist()) == list(range(len(columns)))
    for panel in range(3):
        assert set((column[order[first[panel] : first[panel + 1]]] // PANEL).tolist()) <= {panel}
    assert (first[0], first[-1]) == (0, len(columns))


@pytest.mark.parametrize("kind", TABLES)
def test_the_error_is_that_of_the_similarity(kind: str) -> None:
    """`Dot.slope` for the rounding alone, and for float32, both times the size of the candidates."""
    embeddings = table(kind, 200, 24)
    queries, candidates = Packed.of(embeddings[:20], ROWS, 1), Packed.of(embeddings, PANEL, PANEL)
    own = np.float32(np.linspace(-9, 2, 20))
    targets = Targets.of(np.arange(20), own, queries, 24)
    floor, ceiling = (np.empty(20, dtype=np.int32) for _ in range(2))
    for panel in range(len(candidates.factor)):
        factor, size, lost = candidates.factor[panel], candidates.size[panel], candidates.lost[panel]
        kernels.bound(targets, factor, size, lost, floor, ceiling)
        with np.errstate(invalid="ignore", over="ignore"):
            share = lost / size if size else 0.0
            error = Dot().slope(queries.size, 24, Rounding(0.0, queries.lost, share)) * size
            error += np.where(Dot().may_overflow(queries.size, size, 24), np.inf, Dot().slope(queries.size, 24) * size)
            error, both = error + Dot().lost(24), queries.factor * factor
            least, most = (own - error) * both, (own + error) * both
        open_ = ~np.isfinite(least)
        assert (floor[open_] == -(2**31)).all()
        assert (ceiling[open_] == 2**31 - 1).all()
        room = 1 + 1e-5 * (np.abs(least) + np.abs(most))[~open_]
        for found, bound, sign in ((floor, least, -1), (ceiling, most, 1)):
            clipped = np.clip(bound[~open_], -(2**31), 2**31 - 1)
            beyond = sign * (found[~open_] - clipped)
            assert (beyond >= 0).all()
            assert (beyond <= room).all()


NUMBERS = st.floats(width=32, min_value=-(2.0**60), max_value=2.0**60)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1).map(lambda pairs: np.float32(pairs).T))
def test_integers_never_decide_wrongly(pair: Floats) -> None:
    """In exact fractions, for targets whose scores are next to the dot product, with no allowance for float32."""
    query, candidate = pair[:1], pair[1:]
    queries, candidates = Packed.of(query, ROWS, 1), Packed.of(candidate, PANEL, PANEL)
    left, right = integers(queries, ROWS, 1, pair.shape[1]), integers(candidates, PANEL, 1, pair.shape[1])
    score = int((left[0] * right[0]).sum())
    dot = sum(Fraction(float(q)) * Fraction(float(e)) for q, e in zip(*pair, strict=True))
    nearest = np.float32([float(dot)])
    floor, ceiling = (np.empty(1, dtype=np.int32) for _ in range(2))
    for own in (nearest, np.nextafter(nearest, np.float32(-np.inf)), np.nextafter(nearest, np.float32(np.inf))):
        targets = Targets.of(np.zeros(1, dtype=np.int64), own, queries, pair.shape[1])
        targets = targets._replace(slope=np.zeros(1), flushed=0.0)
        kernels.bound(targets, candidates.factor[0], candidates.size[0], candidates.lost[0], floor, ceiling)
        assert dot < Fraction(float(own[0])) or score >= floor[0]
        assert dot > Fraction(float(own[0])) or score <= ceiling[0]
