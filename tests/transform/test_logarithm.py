import math

import mpmath as mp
import numpy as np
import pytest

from kgprobe.transform import InverseLog, Log

RANKS = np.array([1.0, 1.5, 2.0, 3.0, 1000.5, 1e9])


def test_log_is_exact():
    assert Log()(RANKS, RANKS) == pytest.approx([float(mp.log(mp.mpf(r))) for r in RANKS.tolist()], rel=1e-15, abs=0)


def test_inverse_log_is_exact():
    wanted = [float(mp.log(2) / mp.log(1 + mp.mpf(r))) for r in RANKS.tolist()]
    assert InverseLog()(RANKS, RANKS) == pytest.approx(wanted, rel=1e-15, abs=0)


def test_rank_one_is_the_optimum():
    one = np.ones(1)
    assert Log()(one, one).item() == Log.optimum == 0
    assert InverseLog()(one, one).item() == InverseLog.optimum == 1


def test_directions():
    assert not Log().higher_is_better
    assert InverseLog().higher_is_better
    assert Log()(np.array([2.0]), np.array([9.0])).item() == math.log(2)
