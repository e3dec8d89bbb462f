from typing import Any

import pytest

from kgprobe import Ranks, RanksInfo, UsageError
from kgprobe.openworld.estimate.answers import HeldOut
from kgprobe.openworld.estimate.assumptions import Assumptions
from simulated_worlds import Learned, simulate

TAIL: dict[str, Any] = {"task": {"kind": "tail"}, "split": {"train_share": 0.7}}


def _ranks(settings: dict[str, Any] | None = None) -> Ranks:
    return Ranks.from_columns(
        head=[0, 1],
        relation=[0, 0],
        tail=[2, 3],
        side=["tail"] * 2,
        rank=[1, 2],
        candidates=[9, 9],
        info=RanksInfo(settings=settings or {}),
    )


def test_the_held_out_share_is_read_off_the_ranks_of_a_tail_task() -> None:
    assert Assumptions.of(_ranks(TAIL), (0.2,), 1.0, None).held_out == pytest.approx(0.3)
    assert Assumptions.of(_ranks(TAIL), (0.2,), 1.0, 0.5).held_out == 0.5


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"task": {"kind": "all"}, "split": {"train_share": 0.7}},
        {"task": {"kind": "tail"}},
        {"task": "tail", "split": {"train_share": 0.7}},
        {"task": {"kind": "tail"}, "split": {"train_share": "much"}},
        {"task": {"kind": "tail"}, "split": {"train_share": 1.0}},
    ],
    ids=["nothing", "all", "no split", "no task", "no number", "nothing held out"],
)
def test_other_ranks_do_not_need_it(settings: dict[str, Any]) -> None:
    assert Assumptions.of(_ranks(settings), (0.2,), 1.0, None).held_out is None


@pytest.mark.parametrize(
    ("rates", "odds", "held_out", "problem"),
    [
        ((1.0,), 1.0, None, "the missing rate is 1.0"),
        ((0.1, 0.6, 1.1), 1.0, None, "the missing rate is 1.1"),
        ((-0.1,), 1.0, None, "the missing rate is -0.1"),
        ((0.3, 0.2, 0.1), 1.0, None, "missing rates from 0.3 to 0.1"),
        ((0.1,), 0.0, None, "the odds of missing answers are 0"),
        ((0.1,), 1.0, 0.0, "the held-out share is 0"),
        ((0.1,), 1.0, 1.5, "the held-out share is 1.5"),
        ((0.1,), 1.0, float("nan"), "the held-out share is nan"),
    ],
)
def test_impossible_numbers_are_refused(
    rates: tuple[float, ...], odds: float, held_out: float | None, problem: str
) -> None:
    with pytest.raises(UsageError, match=problem):
        Assumptions.of(_ranks(), rates, odds, held_out)


def test_remarks_say_what_is_assumed() -> None:
    world, entities = simulate(0, Learned(0.9), 0.25, queries=200)
    answers = HeldOut.of(world.open, entities=entities)
    rate, share, sizes = Assumptions((0.25,)).remarks(answers)
    assert rate == "each true fact is missing with probability 0.25, whatever a model says of it"
    truth = 1 - len(world.open) / len(world.closed)
    assert abs(float(share.split("%")[0].removeprefix("so ")) / 100 - truth) < 0.03
    assert "many and with few answers" in sizes
    spread = Assumptions((0.1, 0.2, 0.3), odds=4.0).remarks(answers)[0]
    assert "0.1 to 0.3, but the odds of the answer that a model ranks last are 4 times" in spread


def test_remarks_warn_of_little_to_go_by() -> None:
    remarks = Assumptions((0.8,)).remarks(HeldOut.of(_ranks(), entities=12))
    assert any("rests more on its assumptions" in remark for remark in remarks)
    assert any("only 0% of the targets have another held-out answer" in remark for remark in remarks)
    assert "2 ranks are few to learn from: the estimate is rough, and so is its interval" in remarks
    none = Assumptions((0.0,)).remarks(HeldOut.of(_ranks(), entities=12))
    assert len(none) == 3
