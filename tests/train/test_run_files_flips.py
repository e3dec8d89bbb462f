"""One flipped bit in any file of a run is refused, or changes no number of what the run gives."""

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import kgprobe as kp
from kgprobe.errors import KgprobeError
from kgprobe.train.checkpoints import read_tensors
from kgprobe.train.trainer import TrainingProgress
from runs import bits, small_graph

GRAPH = small_graph()

QUICK = {"dimension": 2, "epochs": 3, "validate_every": 1, "batch_size": 64, "select": ["MRR"], "seeds": [3]}

BEST = "best/mrr/seed-3.safetensors"


class StoppedError(Exception):
    """The training is interrupted."""


def _fit(run: Path, **how: Any) -> Any:
    return kp.fit("distmult", GRAPH, run, threads=1, **QUICK, **how)


def _stop(progress: TrainingProgress) -> None:
    if progress.epoch == 2 and progress.phase == "training":
        raise StoppedError


@dataclass(frozen=True)
class Runs:
    """A run that was interrupted before its last epoch, and the same run at its end."""

    half: Path
    whole: Path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    place = tmp_path_factory.mktemp("flips")
    with pytest.raises(StoppedError):
        _fit(place / "half", progress=_stop)
    assert (place / "half/state.safetensors").exists()
    _fit(shutil.copytree(place / "half", place / "whole"), resume=True)
    return Runs(place / "half", place / "whole")


def _numbers(run: Path) -> list[Any]:
    """All numbers that a finished run gives, without times."""
    ranks = pq.read_table(run / "ranks.parquet")
    return [ranks.to_pydict(), list(bits(read_tensors(run / BEST)[0])), kp.rank(run, GRAPH).rank.tolist()]


def _resumed(run: Path) -> list[Any]:
    _fit(run, resume=True)
    return _numbers(run)


def _ranked(run: Path) -> list[Any]:
    return kp.rank(run, GRAPH).rank.tolist()


def _flip(source: Path, name: str, count: int, act: Callable[[Path], list[Any]], place: Path) -> Counter[str]:
    """Flip one random bit of a file at a time; tells how often it was refused, and how often nothing changed."""
    rng = np.random.default_rng(len(name))
    run = shutil.copytree(source, place / "run")
    expected, found = act(shutil.copytree(source, place / "expected")), Counter[str]()
    content = (source / name).read_bytes()
    for bit in rng.integers(0, 8 * len(content), count).tolist():
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        (run / name).write_bytes(damaged)
        try:
            numbers = act(run)
        except KgprobeError:
            found["refused"] += 1
        else:
            assert numbers == expected, f"bit {bit} of {name}"
            found["same"] += 1
            shutil.rmtree(run)
            shutil.copytree(source, run)
        (run / name).write_bytes(content)
    assert act(run) == expected
    return found


CASES = {
    "checkpoint": (BEST, "whole", _ranked),
    "state": ("state.safetensors", "half", _resumed),
    "checkpoint of a resumed run": (BEST, "half", _resumed),
    "settings": ("settings.toml", "half", _resumed),
    "settings of a ranked run": ("settings.toml", "whole", _ranked),
    "environment": ("environment.json", "half", _resumed),
    "log": ("log.jsonl", "half", _resumed),
    "result": ("result.json", "whole", _resumed),
}


@pytest.mark.parametrize("case", CASES)
def test_a_flipped_bit_is_refused_or_changes_no_number(case: str, runs: Runs, tmp_path: Path) -> None:
    name, which, act = CASES[case]
    found = _flip(getattr(runs, which), name, 40, act, tmp_path)
    assert found.total() == 40
    assert found["refused"] > 0


@pytest.mark.campaign
@pytest.mark.parametrize("case", CASES)
def test_10000_flipped_bits_of_checkpoints_and_states(case: str, runs: Runs, tmp_path: Path) -> None:
    name, which, act = CASES[case]
    count = 10_000 if case in ("checkpoint", "state") else 1_000
    found = _flip(getattr(runs, which), name, count, act, tmp_path)
    print(f"{case}: {count:,} flips, {dict(found)}")
    if name.endswith(".safetensors"):
        assert found == {"refused": count}
