from typing import Any

import numpy as np
import pytest
from scipy.special import betaln, gammaln

from kgprobe.openworld import closed_ranks
from kgprobe.openworld.closed_ranks import ClosedRanks
from kgprobe.openworld.missing_answers import HeldOut, MissingCounts, MissingSelection
from kgprobe.ranks import Ranks
from simulated_worlds import Gaussian, Learned, Scored, simulate


def _one_query(held_out: int, rank: float = 400.0) -> HeldOut:
    ranks = Ranks.from_columns(
        head=[0] * held_out,
        relation=[0] * held_out,
        tail=np.arange(held_out),
        side=["tail"] * held_out,
        rank=rank + np.arange(held_out),
        candidates=[900] * held_out,
    )
    return HeldOut.of(ranks, entities=1000)


def _law_of_missing(possible: ClosedRanks, cell: int) -> dict[float, float]:
    """The distribution of the number of missing answers before a target, its rank left aside."""
    ends = np.append(possible.starts, len(possible.likely))
    own = slice(ends[cell], ends[cell + 1])
    return {j: float(possible.likely[own][possible.missing[own] == j].sum()) for j in np.unique(possible.missing[own])}


@pytest.mark.parametrize(("held_out", "mean", "variance"), [(1, 3.0, 3.0), (4, 2.0, 2.0), (4, 3.0, 7.5), (7, 4.0, 6.0)])
def test_missing_answers_before_a_target_have_their_exact_law(held_out: int, mean: float, variance: float) -> None:
    # The number j of m missing answers before the target is beta-binomial; m is Poisson or negative binomial.
    counts = MissingCounts(np.full(held_out, mean), np.full(held_out, variance))
    answers = _one_query(held_out)
    possible = ClosedRanks.of(answers, counts, MissingSelection(0.5))
    m = np.arange(120)
    if variance == mean:
        of_m = np.exp(m * np.log(mean) - mean - gammaln(m + 1))
    else:
        shape, chance = mean**2 / (variance - mean), mean / variance
        log = gammaln(m + shape) - gammaln(shape) - gammaln(m + 1)
        of_m = np.exp(log + shape * np.log(chance) + m * np.log1p(-chance))
    for row in range(held_out):
        a, b = answers.above[row] + 1, held_out - answers.above[row]
        found = _law_of_missing(possible, int(possible.cell[row]))
        for j in range(12):
            ways = gammaln(m + 1) - gammaln(j + 1) - gammaln(np.maximum(m - j, 0) + 1)
            exact = (of_m * np.exp(ways + betaln(j + a, np.maximum(m - j, 0) + b) - betaln(a, b)))[m >= j].sum()
            assert found.get(j, 0.0) == pytest.approx(exact, abs=0.004)


@pytest.mark.parametrize("odds", [0.1, 1.0, 8.0])
def test_a_lone_known_answer_stands_where_known_answers_are(odds: float) -> None:
    counts, selection = MissingCounts(np.full(1, 2.0), np.full(1, 2.0)), MissingSelection(0.5, odds)
    possible = ClosedRanks.of(_one_query(1), counts, selection)
    found = np.bincount(possible.position, weights=possible.likely)
    edges = np.linspace(0, 1, closed_ranks._POSITIONS + 1)[1:-1]
    exact = np.diff(np.concatenate([[0.0], selection.known_before(edges), [1.0]]))
    np.testing.assert_allclose(found, exact, atol=0.002)
    # Missing answers before it are the share of all that stands before its position: by simulation of positions.
    rng = np.random.default_rng(0)
    position = rng.random(400_000)
    position = position[rng.random(len(position)) > selection.chance(position)]
    simulated = rng.poisson(2.0 * selection.missing_before(position)).mean()
    assert possible.missing @ possible.likely == pytest.approx(simulated, abs=0.02)


def test_no_more_missing_answers_stand_before_a_target_than_candidates() -> None:
    counts = MissingCounts(np.full(3, 8.0), np.full(3, 8.0))
    answers = _one_query(3, rank=1.0)
    possible = ClosedRanks.of(answers, counts, MissingSelection(0.7))
    rank = np.empty(len(possible.starts))
    rank[possible.cell] = answers.ranks.rank
    entries = np.repeat(rank, np.diff(possible.starts, append=len(possible.likely)))
    assert (possible.missing <= entries - 1).all()
    assert _law_of_missing(possible, int(possible.cell[0])) == {0.0: pytest.approx(1.0)}


def _possible(model: Scored, rate: float = 0.3, odds: float = 1.0, kind: str = "few") -> tuple[ClosedRanks, int]:
    world, entities = simulate(3, model, rate, kind=kind, queries=120)
    answers = HeldOut.of(world.open, entities=entities)
    counts = MissingCounts.of(answers.known, rate)
    share = rate / (rate + (1 - rate) * 0.3)
    return ClosedRanks.of(answers, counts, MissingSelection(share, odds)), len(world.open)


@pytest.mark.parametrize("odds", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("kind", ["family", "mixed"])
def test_what_may_lie_behind_a_rank_has_probability_one(kind: str, odds: float) -> None:
    possible, rows = _possible(Gaussian(2.5, 1.0), odds=odds, kind=kind)
    distribution = possible.distribution(np.ones(rows))
    assert distribution.reshape(-1, closed_ranks._POSITIONS).sum(axis=0) == pytest.approx(
        np.ones(closed_ranks._POSITIONS)
    )
    np.testing.assert_allclose(np.add.reduceat(possible.likely, possible.starts), 1, atol=1e-3)
    np.testing.assert_allclose(np.add.reduceat(possible.posterior(distribution), possible.starts), 1)


def _likelihood(possible: ClosedRanks, distribution: Any) -> float:
    """The logarithm of the plain likelihood of all ranks."""
    joint = possible.likely * (distribution / possible.width)[possible.outcome]
    rows = np.bincount(possible.cell, minlength=len(possible.starts))
    return float(rows @ np.log(np.add.reduceat(joint, possible.starts)))


@pytest.mark.parametrize("model", [Learned(0.6), Gaussian(2.5, 1.0)], ids=["learned", "gaussian"])
def test_steps_never_lower_the_likelihood(model: Scored, monkeypatch: pytest.MonkeyPatch) -> None:
    # Without discount and next to nothing borrowed, it is plain expectation and maximisation of the plain likelihood.
    monkeypatch.setattr(closed_ranks, "_DISCOUNT", 0.0)
    monkeypatch.setattr(closed_ranks, "_BORROWED", 1e-9)
    possible, rows = _possible(model)
    likelihoods = []
    for steps in (0, 1, 2, 5, 20, 60):
        monkeypatch.setattr(closed_ranks, "_STEPS", steps)
        likelihoods.append(_likelihood(possible, possible.distribution(np.ones(rows))))
    assert (np.diff(likelihoods) > -1e-6).all()
    assert likelihoods[-1] > likelihoods[0] + 1


def test_steps_over_outcomes_are_those_over_entries() -> None:
    possible, rows = _possible(Gaussian(2.5, 1.0), kind="mixed")
    weight = np.random.default_rng(0).exponential(size=rows)
    cells = np.bincount(possible.cell, weights=weight)
    distribution = None
    for _ in range(closed_ranks._STEPS + 1):
        entries = possible.likely if distribution is None else possible.posterior(distribution)
        found = np.zeros(len(possible.width))
        ends = np.append(possible.starts, len(entries))
        for cell, times in enumerate(cells):
            own = slice(ends[cell], ends[cell + 1])
            np.add.at(found, possible.outcome[own], entries[own] * times)
        distribution = possible._smoothed(found)
    np.testing.assert_allclose(possible.distribution(weight), distribution, rtol=1e-9, atol=1e-12)


def test_explanations_given_other_counts_are_those_made_from_them() -> None:
    world, entities = simulate(3, Gaussian(2.5), 0.3, kind="few", queries=120)
    answers = HeldOut.of(world.open, entities=entities)
    counts, selection = MissingCounts.of(answers.known, 0.3), MissingSelection(0.5)
    other = MissingCounts(0.98 * counts.mean, 0.98 * counts.variance)
    changed, made = ClosedRanks.of(answers, counts, selection).given(other), ClosedRanks.of(answers, other, selection)
    keys = [pairs(possible) for possible in (changed, made)]
    assert keys[0].keys() >= keys[1].keys()
    for key, likely in keys[0].items():
        assert likely == pytest.approx(keys[1].get(key, 0.0), abs=1e-5)


def pairs(possible: ClosedRanks) -> dict[tuple[int, float, int], float]:
    """The prior probability of every cell, number of missing answers and position."""
    cell = np.repeat(np.arange(len(possible.starts)), np.diff(possible.starts, append=len(possible.likely)))
    keys = zip(cell.tolist(), possible.missing.tolist(), possible.position.tolist(), strict=True)
    return dict(zip(keys, possible.likely.tolist(), strict=True))


def test_half_ranks_of_ties_leave_half_ranks() -> None:
    ranks = Ranks.from_columns(
        head=[0, 0], relation=[0, 0], tail=[1, 2], side=["tail"] * 2, rank=[1.5, 4.5], candidates=[90] * 2, ties=[1, 1]
    )
    answers = HeldOut.of(ranks, entities=100)
    possible = ClosedRanks.of(answers, MissingCounts(np.full(2, 2.0), np.full(2, 2.0)), MissingSelection(0.5))
    assert set(possible.missing.tolist()) <= {0.0, 1.0, 2.0, 3.0}
    assert _law_of_missing(possible, int(possible.cell[0])) == {0.0: pytest.approx(1.0)}
