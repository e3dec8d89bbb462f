from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe.errors import UsageError
from kgprobe.metrics import RankAccumulator
from kgprobe.openworld.completions import WEIGHT, Assumptions, Completion
from kgprobe.openworld.missing_answers import HeldOut
from kgprobe.ranks import Ranks, RanksInfo, WorldInfo
from simulated_worlds import Gaussian, Learned, Scored, simulate
from support import tables

TAIL = WorldInfo("open", sides="tail", train_share=0.7)


def _ranks(world: WorldInfo | None = None) -> Ranks:
    return Ranks.from_columns(
        head=[0, 1],
        relation=[0, 0],
        tail=[2, 3],
        side=["tail"] * 2,
        rank=[1, 2],
        candidates=[9, 9],
        info=RanksInfo(world=world),
    )


def test_the_held_out_share_is_read_off_the_ranks_of_a_tail_task() -> None:
    assert Assumptions.of(_ranks(TAIL), (0.2,), 1.0, None).held_out == pytest.approx(0.3)
    assert Assumptions.of(_ranks(TAIL), (0.2,), 1.0, 0.5).held_out == 0.5


@pytest.mark.parametrize(
    "world",
    [None, replace(TAIL, sides="both"), replace(TAIL, train_share=None), replace(TAIL, train_share=1.0)],
    ids=["no world", "all", "no share", "nothing held out"],
)
def test_other_ranks_do_not_need_it(world: WorldInfo | None) -> None:
    assert Assumptions.of(_ranks(world), (0.2,), 1.0, None).held_out is None


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
    assert rate == "each true triple is missing with probability 0.25, independently of its rank"
    truth = 1 - len(world.open) / len(world.closed)
    assert abs(float(share.split("%")[0].removeprefix("so ")) / 100 - truth) < 0.03
    assert "many and with few answers" in sizes
    spread = Assumptions((0.1, 0.2, 0.3), odds=4.0).remarks(answers)[0]
    assert "0.1 to 0.3, with 4 times the odds for the answer that a model ranks last" in spread


def test_remarks_warn_of_little_to_go_by() -> None:
    remarks = Assumptions((0.8,)).remarks(HeldOut.of(_ranks(), entities=12))
    assert any("depends more on assumptions" in remark for remark in remarks)
    assert any("only 0% of the targets have another held-out answer" in remark for remark in remarks)
    assert "with only 2 ranks, the estimate and its interval are rough" in remarks
    none = Assumptions((0.0,)).remarks(HeldOut.of(_ranks(), entities=12))
    assert len(none) == 3


LEARNED = Learned(0.7)


def _answers(model: Scored = LEARNED, rate: float = 0.3, kind: str = "few", least: int = 0) -> HeldOut:
    world, entities = simulate(5, model, rate, kind=kind, queries=150, least=least)
    return HeldOut.of(world.open, entities=entities)


def _mrr(completion: Completion) -> float:
    accumulator = RankAccumulator("MRR", weight=WEIGHT)
    for layer in completion.layers():
        accumulator.update(layer)
    (value,) = accumulator.compute().values()
    return value


def _draw(completion: Completion, seed: int = 0, own: int = 1) -> Ranks:
    return completion.draw(np.random.default_rng(seed), np.random.default_rng(own))


def test_a_draw_is_repeated_by_its_seeds_and_by_no_others() -> None:
    completion = Completion(_answers(), 0.3)
    first, again = _draw(completion), _draw(completion)
    assert first.to_arrow().equals(again.to_arrow())
    assert not np.array_equal(first.rank, _draw(completion, own=2).rank)
    # What is shared does not hang on what is a model's own.
    np.testing.assert_array_equal(first.column(WEIGHT), _draw(completion, own=2).column(WEIGHT))
    assert not np.array_equal(first.column(WEIGHT), _draw(completion, seed=3).column(WEIGHT))


@pytest.mark.parametrize("odds", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_completed_ranks_are_ranks(rate: float, odds: float) -> None:
    answers = _answers(Gaussian(2.0, 1.0), kind="mixed")
    completion = Completion(answers, rate, odds)
    for table in (*completion.layers(), _draw(completion), completion.at_most()):
        assert (table.rank >= 1).all()
        assert (table.rank <= table.candidates).all()
        assert (table.rank <= answers.ranks.rank).all()
        assert (table.candidates <= answers.ranks.candidates).all()
        assert (np.asarray(table.column(WEIGHT)) > 0).all()


@settings(max_examples=25, deadline=None)
@given(tables(), st.floats(0, 0.9), st.sampled_from([0.1, 1.0, 10.0]))
def test_any_table_can_be_completed(table: Ranks, rate: float, odds: float) -> None:
    completion = Completion(HeldOut.of(table, entities=80), rate, odds)
    for made in (*completion.layers(), _draw(completion)):
        assert (made.rank >= 1).all()
        assert (made.rank <= made.candidates).all()
        assert (made.rank <= table.rank).all()


def test_without_missing_triples_nothing_changes() -> None:
    answers = _answers()
    completion = Completion(answers, 0.0)
    (layer,) = completion.layers()
    for table in (layer, _draw(completion), completion.at_most()):
        np.testing.assert_array_equal(table.rank, answers.ranks.rank)
        np.testing.assert_array_equal(table.candidates, answers.ranks.candidates)
        assert (np.asarray(table.column(WEIGHT)) == 1).all()


@pytest.mark.parametrize(
    "model", [Learned(0.7), Gaussian(2.5), Gaussian(2.0, 1.0)], ids=["learned", "plain", "queries"]
)
def test_the_more_is_missing_the_higher_is_the_reciprocal_rank(model: Scored) -> None:
    answers = _answers(model)
    values = [_mrr(Completion(answers, rate)) for rate in (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)]
    assert (np.diff(values) > 0).all()
    assert values[-1] < 1


@pytest.mark.parametrize("odds", [0.25, 1.0, 4.0])
def test_layers_are_what_many_draws_are_on_average(odds: float) -> None:
    completion = Completion(_answers(Gaussian(3.0)), 0.3, odds)
    draws = []
    for seed in range(40):
        accumulator = RankAccumulator("MRR", weight=WEIGHT)
        accumulator.update(_draw(completion, seed, seed + 1000))
        draws.extend(accumulator.compute().values())
    error = np.std(draws, ddof=1)
    assert abs(np.mean(draws) - _mrr(completion)) < 0.75 * error
    assert error > 0.001


def test_missing_answers_before_one_target_of_a_query_are_before_the_next() -> None:
    rank = np.tile(np.arange(10, 14), (200, 1))
    ranks = Ranks.from_columns(
        head=np.repeat(np.arange(200), 4),
        relation=[0] * 800,
        tail=np.arange(800),
        side=["tail"] * 800,
        rank=rank.ravel(),
        candidates=[480] * 800,
    )
    drawn = _draw(Completion(HeldOut.of(ranks, entities=500), 0.3)).rank.reshape(200, 4)
    missing = rank - drawn
    assert np.corrcoef(missing[:, 1], missing[:, 2])[0, 1] > 0.5
    assert abs(np.corrcoef(missing[:-1, 1], missing[1:, 1])[0, 1]) < 0.3


@pytest.mark.parametrize("least", [0, 10])
@pytest.mark.parametrize("rate", [0.1, 0.35])
def test_the_share_of_missing_answers_is_that_of_the_world(rate: float, least: int) -> None:
    completion = Completion(_answers(rate=rate, kind="family", least=least), rate, held_out=0.3 if least else None)
    expect = rate / (rate + (1 - rate) * 0.3)
    assert completion.missing_share == pytest.approx(expect, abs=0.03)


def test_queries_that_were_chosen_for_their_answers_need_the_held_out_share() -> None:
    # Chosen for having at least nine hard answers, queries have rather few known ones: less would seem to be missing.
    world, entities = simulate(6, Learned(0.9), 0.35, kind="few", queries=20_000, least=9)
    answers = HeldOut.of(world.open, entities=entities)
    truth = 1 - len(world.open) / len(world.closed)
    told = Completion(answers, 0.35, held_out=0.3).missing_share
    untold = Completion(answers, 0.35).missing_share
    assert untold < truth - 0.06
    assert abs(told - truth) < 0.03


def test_at_most_moves_no_target_beyond_the_first_place() -> None:
    answers = _answers()
    most = Completion(answers, 0.3).at_most()
    assert (most.rank >= 1).all()
    assert most.rank.mean() < np.mean([layer.rank.mean() for layer in Completion(answers, 0.3).layers()])
    np.testing.assert_array_equal(Completion(answers, 1e-9).at_most().rank, answers.ranks.rank)


def test_queries_of_different_sizes_are_told_apart_where_there_are_ranks_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, entities = simulate(0, Gaussian(4.0, hardness=0.5), 0.2, kind="mixed", queries=2500)
    answers, truth = HeldOut.of(world.open, entities=entities), float(np.mean(1 / world.closed.rank))
    apart = Completion(answers, 0.2)
    assert apart.num_groups == len(world.open) // 2000 >= 2
    error = abs(_mrr(apart) - truth)
    monkeypatch.setattr("kgprobe.openworld.completions._MOST_GROUPS", 1)
    together = Completion(answers, 0.2)
    assert together.num_groups == 1
    assert error < 0.9 * abs(_mrr(together) - truth)


def test_no_more_answers_are_missing_before_a_target_than_candidates_are() -> None:
    world, entities = simulate(1, Gaussian(3.0), 0.2, kind="mixed", queries=2500)
    completion, rows = Completion(HeldOut.of(world.open, entities=entities), 0.2), len(world.open)
    assert completion.num_groups > 1
    missing, _ = completion._fitted(completion.counts, np.ones(rows))(np.full(rows, 0.999))
    assert (missing <= world.open.rank - 1).all()
    assert (missing > 0).any()


def test_few_ranks_have_one_law() -> None:
    world, entities = simulate(0, Learned(0.9), 0.2, queries=40)
    assert Completion(HeldOut.of(world.open, entities=entities), 0.2).num_groups == 1
