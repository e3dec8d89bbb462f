"""Which model wins where: scores against the evaluation, places and winners against plain sorting."""

import itertools

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.comparison import line_up
from kgprobe.decision import PAPER_ALPHAS, PAPER_BETAS, DecisionMap, decision_map
from planes import queries_of, random_lineup, ranked
from support import with_columns

ALPHAS, BETAS = [1.0, 0.25, 0.0, -1.0], [0.0, 0.4, 0.8]


@pytest.fixture(scope="module")
def plane() -> DecisionMap:
    return decision_map(random_lineup(4, runs=2, same_candidates=False), ALPHAS, BETAS, replicates=100)


def test_scores_are_those_of_the_evaluation(plane: DecisionMap) -> None:
    for (m, model), (i, alpha), (j, beta) in itertools.product(
        enumerate(plane.models), enumerate(ALPHAS), enumerate(BETAS)
    ):
        table = kp.merge_seeds(
            dict(enumerate(run.filter(np.ones(len(run), dtype=bool)) for run in plane.lineup.runs[model]))
        )
        (score,) = kp.scores(table, [f"PROBE(alpha={alpha},beta={beta})"])
        assert plane.scores[m, i, j] == pytest.approx(score.value, rel=1e-12)
        assert plane.std[m, i, j] == pytest.approx(score.std, rel=1e-9)
        assert plane.effective[m, j] == pytest.approx(score.effective, rel=1e-9)


def test_a_notebook_shows_the_winners_and_their_shares():
    fine = np.linspace(-1, 1, 41)
    plane = decision_map(random_lineup(3), fine, [0.4, 0.0], replicates=100)
    rows = plane._shown_rows()
    assert [row["beta"] for row in rows] == ["0", "0.4"]
    assert list(rows[0])[1:] == [f"alpha={alpha:g}" for alpha in np.linspace(-1, 1, 9)]
    for row, j in zip(rows, (1, 0), strict=True):
        for i in range(0, 41, 5):
            shown, star, _ = row[f"alpha={fine[i]:g}"].partition(" *")
            assert shown == plane.models[plane.winner[i, j]]
            assert bool(star) == plane.beyond_noise[i, j]
    won = {model: f"{model} {share:.0%}" for model, share in plane.share().items() if share}
    assert all(text in repr(plane) for text in won.values())
    assert repr(plane).startswith("DecisionMap(41 alphas x 2 betas, wins: ")


@pytest.mark.parametrize("tie", ["mean", "expected", "optimistic", "pessimistic"])
def test_ties_are_scored_as_asked(tie: str) -> None:
    columns = queries_of(20)
    table = kp.Ranks.from_columns(rank=[2.5, 1.0] * 20, ties=[3, 0] * 20, candidates=[30] * 40, **columns)
    plane = decision_map(
        line_up({"one": table, "two": ranked(20, [2, 3] * 20, 30).with_info()}), [0.5], [0.4], tie="mean"
    )
    assert plane.settings.tie == "mean"
    alone = decision_map(line_up({"one": table}), [0.5], [0.4], tie=tie)
    assert alone.scores[0, 0, 0] == pytest.approx(kp.evaluate(table, "PROBE(alpha=0.5,beta=0.4)", tie=tie).popitem()[1])


def test_winner_runner_up_and_lead(plane: DecisionMap) -> None:
    for i, j in np.ndindex(plane.winner.shape):
        order = sorted(range(4), key=lambda m: -plane.scores[m, i, j])
        assert [plane.winner[i, j], plane.runner_up[i, j]] == order[:2]
        assert plane.lead[i, j] == plane.scores[order[0], i, j] - plane.scores[order[1], i, j]
        assert plane.lead_error[i, j] == plane.errors[order[0], order[1], i, j]
        leads = [plane.scores[order[0], i, j] - plane.scores[m, i, j] for m in order[1:]]
        bands = [plane.bands[order[0], m, i, j] for m in order[1:]]
        assert plane.beyond_noise[i, j] == all(lead > band for lead, band in zip(leads, bands, strict=True))


def test_places_share_and_ranges(plane: DecisionMap) -> None:
    places, (best, worst) = plane.places(), plane.place_ranges()
    won = dict.fromkeys(plane.models, 0.0)
    for i, j in np.ndindex(plane.winner.shape):
        order = np.argsort(-plane.scores[:, i, j])
        assert places[order, i, j].tolist() == [1, 2, 3, 4]
        won[plane.models[order[0]]] += 1 / plane.winner.size
        for m in range(4):
            assert best[m, i, j] == 1 + sum(plane.beats[other, m, i, j] for other in range(4))
            assert worst[m, i, j] == 4 - sum(plane.beats[m, other, i, j] for other in range(4))
    assert (best <= places).all()
    assert (places <= worst).all()
    assert plane.share() == pytest.approx(won)
    sure = plane.share(beyond_noise=True)
    assert sum(sure.values()) == pytest.approx(plane.beyond_noise.mean())
    assert all(sure[model] <= won[model] for model in plane.models)


def test_normalised_runs_from_the_worst_to_the_best(plane: DecisionMap) -> None:
    scaled = plane.normalised()
    assert (scaled.min(axis=0) == 0).all()
    assert (scaled.max(axis=0) == 1).all()
    low, high = plane.scores.min(axis=0), plane.scores.max(axis=0)
    np.testing.assert_allclose(low + scaled * (high - low), plane.scores, rtol=1e-12)


def test_no_lead_is_beyond_noise_where_queries_are_too_few() -> None:
    rank = np.random.default_rng(0).integers(1, 9, 300)
    plane = decision_map(line_up({"good": ranked(150, rank), "bad": ranked(150, rank + 60)}), ALPHAS[:3], BETAS)
    assert plane.trusted.tolist() == [True, False, False]
    assert (plane.lead > plane.bands[0, 1]).all()
    assert (plane.beyond_noise == plane.trusted).all()
    assert (plane.place_ranges()[1][0] == np.where(plane.trusted, 1, 2)).all()


def test_models_that_share_a_place() -> None:
    first, second = ranked(20, [1, 9] * 20), ranked(20, [2, 30] * 20)
    plane = decision_map(line_up({"b": second, "a": first, "copy": first}), ALPHAS, BETAS, replicates=50)
    assert (plane.places() == np.array([3, 1, 1])[:, None, None]).all()
    assert (plane.winner == 1).all()
    assert (plane.runner_up == 2).all()
    assert not plane.beyond_noise.any()
    assert plane.share() == {"b": 0.0, "a": 0.5, "copy": 0.5}
    assert plane.pareto() == ("a", "copy")
    same = decision_map(line_up({"a": first, "copy": first}), ALPHAS, BETAS, replicates=50)
    assert (same.normalised() == 0.5).all()
    assert same.crossings("a", "copy") == []
    assert same.crossing_alphas("a", "copy", 0.0).size == 0


def test_a_copy_of_the_winner_makes_its_lead_noise() -> None:
    lineup = random_lineup(2, triples=400)
    better = kp.Ranks(lineup.first.to_arrow().set_column(4, "rank", [np.maximum(1, np.floor(lineup.first.rank / 3))]))
    alone = decision_map(line_up({"better": better, "worse": lineup.first}), ALPHAS, BETAS, replicates=200)
    assert (alone.winner == 0).all()
    assert alone.beyond_noise.all()
    with_copy = decision_map(
        line_up({"better": better, "worse": lineup.first, "copy": better}), ALPHAS, BETAS, replicates=200
    )
    assert not with_copy.beyond_noise.any()
    assert with_copy.beats[0, 1].all()
    assert with_copy.beats[2, 1].all()
    assert with_copy.pareto(beyond_noise=True) == ("better", "copy")


def test_exchanging_models_exchanges_the_map() -> None:
    lineup = random_lineup(3, runs=2, same_candidates=False)
    tables = {model: kp.merge_seeds(dict(enumerate(runs))) for model, runs in lineup.runs.items()}
    one = decision_map(line_up(tables), ALPHAS, BETAS, replicates=200)
    other = decision_map(line_up(dict(reversed(tables.items()))), ALPHAS, BETAS, replicates=200)
    np.testing.assert_array_equal(one.scores, other.scores[::-1])
    np.testing.assert_allclose(one.errors, other.errors[::-1, ::-1], rtol=1e-9)
    np.testing.assert_allclose(one.bands, other.bands[::-1, ::-1], rtol=1e-6)
    np.testing.assert_array_equal(one.beyond_noise, other.beyond_noise)
    np.testing.assert_array_equal(np.array(one.models)[one.winner], np.array(other.models)[other.winner])
    forward, backward = (plane.crossing_alphas("m0", "m1", 0.4) for plane in (one, other))
    np.testing.assert_allclose(forward, backward, atol=1e-9)


def test_pareto_by_brute_force() -> None:
    for seed in range(20):
        plane = decision_map(random_lineup(5, triples=6, seed=seed), ALPHAS, BETAS, replicates=20)
        flat = plane.scores.reshape(5, -1)
        kept = [
            model
            for m, model in enumerate(plane.models)
            if not any((flat[o] >= flat[m]).all() and (flat[o] > flat[m]).any() for o in range(5) if o != m)
        ]
        assert list(plane.pareto()) == kept
        sure = [
            model
            for m, model in enumerate(plane.models)
            if not any(plane.beats[o, m].all() for o in range(5) if o != m)
        ]
        assert list(plane.pareto(beyond_noise=True)) == sure
        assert set(plane.pareto()) <= set(sure)


def test_rows_say_it_all(plane: DecisionMap) -> None:
    rows = plane.to_rows()
    assert len(rows) == 4 * len(ALPHAS) * len(BETAS)
    for row in rows:
        m, i, j = plane.models.index(row["model"]), ALPHAS.index(row["alpha"]), BETAS.index(row["beta"])
        assert row["value"] == plane.scores[m, i, j]
        assert (row["lead"] >= 0) == (plane.winner[i, j] == m)
        winner, other = plane.winner[i, j], plane.runner_up[i, j]
        expected = plane.beyond_noise[i, j] if winner == m else plane.beats[winner, m, i, j]
        assert row["beyond_noise"] == expected
        assert row["error"] == plane.errors[winner, other if winner == m else m, i, j]
        assert row["best_place"] <= row["place"] <= row["worst_place"]


def test_one_point_best_first(plane: DecisionMap) -> None:
    rows = plane.at(0.25, 0.4)
    assert [row["place"] for row in rows] == [1, 2, 3, 4]
    assert {(row["alpha"], row["beta"]) for row in rows} == {(0.25, 0.4)}
    with pytest.raises(kp.UsageError, match="not a point of the map"):
        plane.at(0.3, 0.4)


def test_one_model_is_alone() -> None:
    plane = decision_map(line_up({"only": ranked(20, [1, 9] * 20)}), ALPHAS, BETAS)
    assert (plane.winner == 0).all()
    assert not plane.beyond_noise.any()
    assert (plane.places() == 1).all()
    assert (plane.normalised() == 0.5).all()
    assert plane.pareto() == plane.pareto(beyond_noise=True) == ("only",)
    assert (plane.lead == 0).all()


def test_differences_that_never_vary_are_not_called_beyond_noise() -> None:
    plane = decision_map(line_up({"a": ranked(20, [1] * 40), "b": ranked(20, [2] * 40)}), [1.0], [0.0])
    assert plane.winner[0, 0] == 0
    assert not plane.beyond_noise.any()


def test_rounding_decides_nothing() -> None:
    """The same ranks on other queries: equal sums, added in another order."""
    rng = np.random.default_rng(0)
    rank = rng.integers(1, 90, 800)
    same = {"entity_popularity": np.full(800, 0.1), "relation_popularity": np.full(800, 0.5)}
    tables = {"a": ranked(400, rank), "b": ranked(400, rng.permutation(rank))}
    lineup = line_up({model: with_columns(table, **same) for model, table in tables.items()})
    plane = decision_map(lineup, np.linspace(-1, 1, 9), [0.0, 0.4], replicates=20)
    assert np.ptp(plane.scores, axis=0).max() > 0
    assert (plane.places() == 1).all()
    assert (plane.normalised() == 0.5).all()
    assert plane.share() == {"a": 0.5, "b": 0.5}
    assert plane.pareto() == ("a", "b")
    assert plane.crossing_alphas("a", "b", 0.0).size == 0
    assert plane.crossings("a", "b") == []


def test_every_model_needs_queries_enough_for_trust() -> None:
    many = ranked(150, [2] * 300)
    few = kp.Ranks.from_columns(rank=[1] * 300, candidates=[100] * 150 + [1] * 150, **queries_of(150))
    assert decision_map(line_up({"many": many}), [1.0], [0.0]).trusted.all()
    assert not decision_map(line_up({"many": many, "few": few}), [1.0], [0.0], replicates=20).trusted.any()


def test_trust_follows_the_effective_queries() -> None:
    plane = decision_map(random_lineup(2, triples=150), [1.0], [0.0, 5.0], replicates=50)
    assert plane.effective[0, 0] == 300
    assert plane.effective[0, 1] < 200
    assert plane.trusted.tolist() == [True, False]


def test_popularity_is_needed_only_where_beta_is_not_0() -> None:
    table = kp.Ranks(ranked(20, [1, 9] * 20).to_arrow().drop_columns(["entity_popularity", "relation_popularity"]))
    lineup = line_up({"a": table, "b": table})
    assert decision_map(lineup, ALPHAS, [0.0], replicates=20).scores.shape == (2, 4, 1)
    with pytest.raises(kp.DataError, match="beta other than 0 needs the popularity"):
        decision_map(lineup, ALPHAS, BETAS)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"level": 1.0}, "level must be between 0 and 1, not 1"),
        ({"seeds": "few"}, "seeds can be fixed or random, not 'few'"),
        ({"seeds": "random"}, "random seeds need two runs of m0, m1"),
        ({"replicates": 0}, "replicates must be a whole number, at least 1, not 0"),
        ({"seed": -1}, "seed must be a whole number, at least 0, not -1"),
        ({"alphas": [0.0, 0.0]}, "alphas must be a list of different finite numbers"),
        ({"betas": [np.inf]}, "betas must be a list of different finite numbers"),
        ({"betas": ["much"]}, "betas must be a list of numbers"),
        ({"cluster": "colour"}, "unknown cluster 'colour'"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_requests_that_make_no_sense(arguments: dict[str, object], complaint: str) -> None:
    with pytest.raises(kp.UsageError) as caught:
        decision_map(random_lineup(2, triples=5), **arguments)  # type: ignore[arg-type]
    assert complaint in str(caught.value)


def test_the_papers_grid_is_the_default() -> None:
    plane = decision_map(random_lineup(2, triples=5), replicates=10)
    assert plane.alphas.tolist() == list(PAPER_ALPHAS)
    assert plane.betas.tolist() == list(PAPER_BETAS)


def test_runs_repeat() -> None:
    lineup = random_lineup(3)
    one, same, other = (decision_map(lineup, replicates=200, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.bands, same.bands)
    assert one.settings.width != other.settings.width


def test_the_map_answers_in_sentences() -> None:
    size, rng = 400, np.random.default_rng(0)
    ahead, behind = (ranked(size // 2, rng.integers(*ends, size)) for ends in ((1, 4), (30, 60)))
    clear = decision_map({"ahead": ahead, "behind": behind}, [1.0, 0.0], [0.0])
    assert str(clear) == "ahead wins everywhere, significantly so."
    close = {name: ranked(size // 2, rng.integers(1, 60, size)) for name in "abcdef"}
    plane = decision_map(close, [1.0, 0.5, 0.0, -0.5, -1.0], [0.0])
    share = plane.share()
    best = max(share, key=lambda model: share[model])
    assert str(plane).startswith(f"{best} wins ")
    assert str(plane).endswith("nowhere significantly.")
    assert str(decision_map({"alone": ahead}, [1.0], [0.0])) == "There is only one model to choose from."
