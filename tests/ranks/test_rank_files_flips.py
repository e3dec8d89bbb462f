"""One wrong bit in a rank file is noticed, or changes nothing."""

from pathlib import Path

import numpy as np
import pytest

from flipping import outcomes
from kgprobe.ranks import Ranks, RanksInfo, read_ranks


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    size = 600
    ranks = Ranks.from_columns(
        head=np.arange(size),
        relation=rng.integers(0, 20, size),
        tail=rng.integers(0, 900, size),
        side=np.where(rng.random(size) < 0.5, "head", "tail"),
        rank=1 + rng.integers(0, 400, size) / 2,
        candidates=rng.integers(300, 900, size),
        ties=rng.integers(0, 1, size),
        entity_popularity=rng.random(size),
        relation_popularity=rng.random(size),
        seed=1,
        labels={"kind": np.where(rng.random(size) < 0.3, "1-n", "n-n")},
        info=RanksInfo(model="m", graph="g", graph_hash="0" * 64, split="test", filtered=("train", "valid", "test")),
    )
    ranks.write(tmp_path / "r.parquet")
    return tmp_path / "r.parquet"


@pytest.mark.parametrize(
    ("number", "seed"), [(300, 0), pytest.param(10_000, 1, marks=pytest.mark.campaign)], ids=["300", "10,000"]
)
def test_a_flipped_bit_is_refused_or_changes_nothing(path: Path, number: int, seed: int) -> None:
    def read() -> object:
        ranks = read_ranks(path)
        return ranks.info, ranks.to_arrow().schema, ranks.to_arrow().to_pydict()

    counts = outcomes(path, number, seed, read)
    assert counts["other"] == 0
    assert counts["refused"] > 0.95 * number
