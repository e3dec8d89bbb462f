"""Which model to pick at one point, and which others might be as good."""

import math

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.comparison import line_up
from kgprobe.comparison.model_comparison import compare_models
from kgprobe.decision import Decision, decide
from planes import random_lineup, ranked

TRIPLES = 200


def tables(*names: str) -> dict[str, kp.Ranks]:
    """Models of known order: good is far ahead of bad, close and near are alike, and copy is good again."""
    rng = np.random.default_rng(0)
    good = rng.integers(1, 12, 2 * TRIPLES)
    ranks = {
        "good": good,
        "copy": good,
        "close": np.maximum(1, good + rng.integers(-3, 4, 2 * TRIPLES)),
        "near": np.maximum(1, good + rng.integers(-3, 4, 2 * TRIPLES)),
        "bad": good + rng.integers(20, 60, 2 * TRIPLES),
        "worse": good + rng.integers(20, 80, 2 * TRIPLES),
    }
    return {name: ranked(TRIPLES, ranks[name]) for name in names}


def decided(*names: str, alpha: float = 0.0, beta: float = 0.4, **settings: object) -> Decision:
    return decide(line_up(tables(*names)), alpha, beta, replicates=500, permutations=500, **settings)  # type: ignore[arg-type]


def test_values_and_leads_are_those_of_the_evaluation() -> None:
    given = tables("bad", "close", "good", "worse")
    decision = decided(*given)
    values = {name: kp.evaluate(table, "PROBE(alpha=0,beta=0.4)").popitem()[1] for name, table in given.items()}
    assert [s.model for s in decision.standings] == sorted(values, key=lambda name: -values[name])
    assert [s.place for s in decision.standings] == [1, 2, 3, 4]
    for standing in decision.standings:
        assert standing.estimate.value == pytest.approx(values[standing.model], rel=1e-12)
        if standing.behind is None:
            assert standing.model == decision.winner
        else:
            assert (standing.behind.first, standing.behind.second) == (decision.winner, standing.model)
            assert standing.behind.value == pytest.approx(values[decision.winner] - values[standing.model], rel=1e-9)
            assert standing.behind.interval.low <= standing.behind.value <= standing.behind.interval.high


def test_who_is_within_noise_follows_the_corrected_tests() -> None:
    given = tables("bad", "close", "good", "near")
    decision = decided(*given)
    tests = compare_models(line_up(given), ["PROBE(alpha=0,beta=0.4)"], replicates=500, permutations=500).differences
    holm = {frozenset((test.first, test.second)): test.holm for test in tests}
    expected = [
        s.model
        for s in decision.standings
        if s.model == decision.winner or holm[frozenset((decision.winner, s.model))] > 0.05
    ]
    assert list(decision.choices) == expected
    assert "bad" not in decision.choices
    assert len(decision.choices) > 1
    assert not decision.beyond_noise


def test_the_correction_for_all_pairs_decides() -> None:
    """Some difference that would be significant on its own is not among those of all pairs."""
    spared = 0
    for seed in range(12):
        decision = decide(random_lineup(5, triples=100, seed=seed), 0.0, 0.0, replicates=100, permutations=500)
        for standing in decision.standings[1:]:
            assert standing.behind is not None
            assert standing.within_noise == (standing.behind.interval.low <= 0)
            assert standing.within_noise == (standing.behind.adjusted > 0.05)
            spared += standing.behind.p <= 0.05 < standing.behind.adjusted <= 0.95
    assert spared > 0


@pytest.mark.parametrize("seeds", ["fixed", "random"])
def test_the_order_in_which_models_are_given_does_not_matter(seeds: str) -> None:
    lineup = random_lineup(3, triples=150, runs=2)
    merged = {model: kp.merge_seeds(dict(enumerate(runs))) for model, runs in lineup.runs.items()}
    settings = {"replicates": 300, "permutations": 300, "seeds": seeds}
    one = decide(line_up(merged), 0.5, 0.2, **settings)  # type: ignore[arg-type]
    other = decide(line_up(dict(reversed(merged.items()))), 0.5, 0.2, **settings)  # type: ignore[arg-type]
    assert one.choices == other.choices
    for mine, theirs in zip(one.to_rows(), other.to_rows(), strict=True):
        assert list(mine) == list(theirs)
        for key, value in mine.items():
            assert value == (pytest.approx(theirs[key], rel=1e-9) if isinstance(value, float) else theirs[key]), key


def test_a_sure_winner() -> None:
    decision = decided("bad", "good")
    assert (decision.winner, decision.choices, decision.beyond_noise) == ("good", ("good",), True)
    lead = decision.standings[1].behind
    assert lead is not None
    assert str(decision) == (
        f"For alpha 0 and beta 0.4, pick good: its PROBE {decision.standings[0].estimate.value:.4f} is "
        f"significantly higher than that of every other model; bad comes next, {lead.value:.4f} behind "
        f"(95 % simultaneous CI {lead.interval.low:.4f} to "
        f"{lead.interval.high:.4f}). good is ahead for alpha -1 to 1 and for beta 0 to 0.8."
        + (f" But {decision.remark}." if decision.remark else "")
    )


def test_a_copy_of_the_winner_is_as_good() -> None:
    decision = decided("good", "bad", "copy")
    assert decision.choices == ("good", "copy")
    assert [s.place for s in decision.standings] == [1, 1, 3]
    assert "pick good or copy: good has the highest score" in str(decision)
    assert "but copy (equal) is not significantly worse." in str(decision)
    assert [(reach.low, reach.high) for reach in decision.reaches] == [(None, None), (None, None)]


def test_several_within_noise_and_all_of_them() -> None:
    decision = decided("close", "near", "bad", "good")
    first, second, third = decision.choices
    assert f"pick {first}, {second} or {third}: {first} has" in str(decision)
    assert " behind) and " in str(decision)
    assert " are not significantly worse." in str(decision)
    everyone = decided("close", "near", "good")
    assert "any model may be the best" in str(everyone)
    assert "but none of the 2 others is significantly worse." in str(everyone)


def test_one_model() -> None:
    decision = decided("good")
    assert decision.reaches == ()
    assert not decision.beyond_noise
    assert "there is no other model to pick" in str(decision)
    assert decision.to_rows()[0]["lead"] is None
    lineup = line_up({"alone": ranked(20, [1, 9] * 20)})
    assert decide(lineup, 1.0, 0.0, replicates=200, level=1e-320).winner == "alone"


def test_few_queries_are_remarked_on() -> None:
    lineup = line_up({"a": ranked(20, [1, 9] * 20), "b": ranked(20, [4, 30] * 20)})
    decision = decide(lineup, 1.0, 0.0, replicates=200)
    assert decision.effective == 40
    reason = decision.standings[0].estimate.interval.remark
    assert reason is not None
    assert "40" in reason
    assert decision.remark == f"the intervals cannot be trusted: {reason}"
    assert str(decision).endswith(f"But {decision.remark}.")
    assert not decision.to_rows()[0]["trusted"]


def test_a_lead_that_rests_on_a_few_queries_is_doubted() -> None:
    rank = np.random.default_rng(0).integers(1, 90, 600)
    behind = rank.copy()
    behind[20:32:2] += 9
    lineup = line_up({"ahead": ranked(300, rank), "copy": ranked(300, rank), "behind": ranked(300, behind)})
    decision = decide(lineup, 0.0, 0.0, level=0.6, replicates=200, permutations=500)
    assert [row["trusted"] for row in decision.to_rows()] == [True, True, False]
    lead = decision.standings[2].behind
    assert lead is not None
    assert decision.standings[0].estimate.interval.trusted
    assert decision.choices == ("ahead", "copy")
    assert decision.remark == f"the lead over behind cannot be trusted: {lead.interval.remark}"
    assert decision.remark in str(decision)


def test_where_the_perspective_cannot_move() -> None:
    plain = {
        name: kp.Ranks(table.to_arrow().drop_columns(["entity_popularity", "relation_popularity"]))
        for name, table in tables("good", "bad").items()
    }
    decision = decide(line_up(plain), 1.0, 0.0, replicates=200, permutations=200)
    assert [reach.axis for reach in decision.reaches] == ["alpha"]
    with pytest.raises(kp.DataError):
        decide(line_up(plain), 1.0, 0.4)
    infinite = decided("good", "bad", alpha=math.inf)
    assert [reach.axis for reach in infinite.reaches] == ["beta"]
    assert str(infinite).startswith("For alpha inf and beta 0.4, pick good")


def test_beyond_the_papers_range() -> None:
    decision = decided("good", "bad", alpha=2.0, beta=1.0)
    assert [reach.limits for reach in decision.reaches] == [(-1.0, 2.0), (0.0, 1.0)]


def test_rows_are_flat_and_whole() -> None:
    decision = decided("bad", "good")
    first, second = decision.to_rows()
    assert (first["model"], first["place"], first["lead"], first["p"]) == ("good", 1, None, None)
    behind = decision.standings[1].behind
    assert behind is not None
    assert (second["lead"], second["lead_low"], second["lead_high"]) == (
        behind.value,
        behind.interval.low,
        behind.interval.high,
    )
    assert (second["p"], second["holm"], second["within_noise"]) == (behind.p, behind.holm, False)
