import numpy as np
import pytest

from kgprobe.compare import kept
from kgprobe.compare.kept import Rule, Table, parted, side_by_side


@pytest.mark.parametrize("cells", [1 << 24, 40])
def test_products_are_the_same_in_one_block_and_in_many(monkeypatch, cells):
    monkeypatch.setattr(kept, "_BLOCK_CELLS", cells)
    rng = np.random.default_rng(0)
    first, second, draws = rng.random((37, 2)), rng.random((37, 5)), rng.random((4, 37))
    kinds = [Table(2, first.__getitem__), Rule(1, lambda d: d.max(axis=1, keepdims=True)), Table(5, second.__getitem__)]
    found = side_by_side(kinds, 37)(draws)
    expected = [draws @ first, draws.max(axis=1, keepdims=True), draws @ second]
    assert found == pytest.approx(np.concatenate(expected, axis=1), rel=1e-12)
    for part, own in zip(parted(found, kinds), expected, strict=True):
        assert part == pytest.approx(own, rel=1e-12)


def test_rules_alone_need_no_table():
    assert side_by_side([Rule(1, lambda draws: draws[:, 1:])], 2)(np.array([[3.0, 4.0]])).tolist() == [[4.0]]
