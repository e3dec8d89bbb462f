import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.comparison import Lineup, line_up
from kgprobe.report.page import compression
from kgprobe.report.page import payload as payload_module
from kgprobe.report.page.compression import ALPHAS, BETAS, deviation, histogram
from kgprobe.report.page.payload import About, payload, unpack
from pages import ask_lineup, lined_up


def _epsilons(lineup: Lineup) -> list[list[float] | None]:
    return [model["epsilon"] for model in unpack(payload(lineup, About()).packed)[0]["models"]]


def _spread_out(rows: int, *, seed: int = 0, popularity: bool = True) -> Lineup:
    """Models with ranks of all sizes among many candidates, and popularity of all sizes."""
    rng = np.random.default_rng(seed)
    candidates = rng.integers(9_000, 10_000, rows)
    known = {"entity_popularity": 10 ** rng.uniform(-6, -1, rows), "relation_popularity": rng.random(rows)}

    def table() -> kp.Ranks:
        rank = np.minimum(np.floor(np.exp(rng.exponential(2.5, rows))), candidates)
        return kp.Ranks.from_columns(
            head=np.arange(rows) // 2,
            relation=[0] * rows,
            tail=np.arange(rows) // 2,
            side=np.where(np.arange(rows) % 2 == 0, "head", "tail"),
            rank=rank,
            candidates=candidates,
            **(known if popularity else {}),
        )

    return line_up({"one": table(), "other": table()})


def test_every_evaluated_query_is_in_one_cell() -> None:
    lineup = lined_up(rows=300, single=20, seeds=(2, 1), other_candidates=True)
    found = histogram(lineup, _epsilons(lineup))
    runs = [run for own in lineup.runs.values() for run in own]
    assert [int(own.count.sum()) for own in found.cells] == [int((run.candidates > 1).sum()) for run in runs]
    assert found.strata_of == [0, 0, 0, 1, 1]


def test_small_ranks_keep_their_exact_value() -> None:
    lineup = _spread_out(4000)
    found = histogram(lineup, _epsilons(lineup))
    for own, (run,) in zip(found.cells, lineup.runs.values(), strict=True):
        restored = np.repeat(found.ranks[own.rank], own.count)
        small = np.sort(run.rank[run.rank <= 64])
        assert np.sort(restored[restored <= 64.5]) == pytest.approx(small, abs=1e-9)


def test_the_surface_is_that_of_the_cells_one_by_one() -> None:
    lineup = lined_up(rows=100)
    found = histogram(lineup, _epsilons(lineup))
    own, strata = found.cells[1], found.strata[found.strata_of[1]]
    expected = np.zeros((len(ALPHAS), len(BETAS)))
    for i, alpha in enumerate(ALPHAS):
        for j, beta in enumerate(BETAS):
            total = weight = 0.0
            for rank, stratum, count in zip(own.rank, own.stratum, own.count, strict=True):
                w = count * np.exp(-beta * strata.log_popularity[stratum])
                size = np.array([strata.size[stratum]])
                total += w * kp.transform.AffinePower(alpha)(found.ranks[[rank]], size)[0]
                weight += w
            expected[i, j] = total / weight
    assert found.surface(1, weighted=True) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("popularity", [True, False])
def test_the_deviation_is_small_and_is_the_largest(popularity: bool) -> None:
    lineup = _spread_out(20_000, popularity=popularity)
    found = histogram(lineup, _epsilons(lineup))
    stated = deviation(found, lineup, weighted=popularity)
    betas = BETAS if popularity else (0.0,)
    measured = 0.0
    for i, (run,) in enumerate(lineup.runs.values()):
        names = [f"PROBE(alpha={alpha},beta={beta})" for alpha in ALPHAS for beta in betas]
        exact = np.array(list(kp.evaluate(run, names).values())).reshape(len(ALPHAS), -1)
        measured = max(measured, float(np.abs(found.surface(i, popularity) - exact).max()))
    assert stated == pytest.approx(measured, abs=1e-12)
    assert 0 < stated < 2e-4


def test_bins_become_coarser_until_the_cells_are_few_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    lineup = _spread_out(20_000)
    finest = histogram(lineup, _epsilons(lineup))
    monkeypatch.setattr(compression, "MOST_CELLS", finest.size // 2)
    coarser = histogram(lineup, _epsilons(lineup))
    assert coarser.size <= finest.size // 2
    monkeypatch.setattr(compression, "MOST_CELLS", 0)
    coarsest = histogram(lineup, _epsilons(lineup))
    assert 0 < coarsest.size < coarser.size
    assert deviation(finest, lineup, True) < deviation(coarsest, lineup, True) < 0.01


POINTS = [(alpha, beta) for alpha in (-1.0, -0.5, 0.0, 0.5, 1.0) for beta in (0.0, 0.2, 0.4, 0.6, 0.8)]

ROWS, SAMPLED = 6000, 2000


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Lineup:
    """A line-up that is taken for one of too many ranks: three models, one with two runs."""
    monkeypatch.setattr(payload_module, "MOST_RANKS", 1000)
    monkeypatch.setattr(compression, "MOST_SAMPLED", 4 * SAMPLED)
    return lined_up(rows=ROWS, seeds=(2, 1, 1), single=50, other_candidates=True)


def _exact(lineup: Lineup, tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(payload_module, "MOST_RANKS", 10**9)
        return ask_lineup(tmp_path, lineup, body)


def test_scores_deviate_by_no_more_than_is_said(large: Lineup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"return [data.compression, {json.dumps(POINTS)}.map(([a, b]) => scores(data, a, b))];"
    sentence, shown = ask_lineup(tmp_path, large, body)
    _, exact = _exact(large, tmp_path, body, monkeypatch)
    pairs = [pair for own, true in zip(shown, exact, strict=True) for pair in zip(own, true, strict=True)]
    said = float(sentence.split("alpha and beta: ")[1].split(")")[0])
    assert 0 < max(abs(own["value"] - true["value"]) for own, true in pairs) <= said * 1.05 < 1e-3
    assert [own["effective"] for own, _ in pairs] == pytest.approx([true["effective"] for _, true in pairs], rel=0.01)


def test_intervals_are_nearly_those_of_all_queries(
    large: Lineup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "return [[1, 0], [0, 0.4]].map(([a, b]) => [scores(data, a, b), differences(data, a, b)].flat()).flat();"
    shown, exact = ask_lineup(tmp_path, large, body), _exact(large, tmp_path, body, monkeypatch)
    for own, true in zip(shown, exact, strict=True):
        assert own.get("untested") == true.get("untested")
        if own.get("untested"):
            continue
        width, wanted = own["high"] - own["low"], true["high"] - true["low"]
        assert width == pytest.approx(wanted, rel=0.12, abs=1e-9)
        assert own["trusted"] == true["trusted"]


def test_the_sentence_says_what_was_done(large: Lineup, tmp_path: Path) -> None:
    sentence = ask_lineup(tmp_path, large, "return data.compression;")
    assert sentence.startswith("The 24,000 ranks are compressed: ")
    assert f"a random sample of {SAMPLED:,} queries" in sentence
    assert f"the {SAMPLED // 5:,} other queries on which the models differ most" in sentence
    assert sentence.count(".") - sentence.count("0.") <= 2


def test_the_table_lists_the_sample_under_the_row_numbers_of_the_file(large: Lineup, tmp_path: Path) -> None:
    body = """
      const rows = Array.from({ length: queryCount(data) }, (_, i) => query(data, i));
      return rows.map(({ row, head, side, ranks }) => [row, head, side, ranks[1]]);
    """
    shown = ask_lineup(tmp_path, large, body)
    assert len(shown) == SAMPLED + SAMPLED // 5
    ranks = large.runs["model 1"][0].rank
    for row, head, side, rank in shown:
        assert (head, rank) == (str(large.first.head[row]), ranks[row])
        assert side == ("tail" if large.first.predicts_tail[row] else "head")


def test_histogram_and_groups_stand_for_all_queries(
    large: Lineup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "return [histogram(data, 0), breakdown(data, 'side', 0.5, 0.2), breakdown(data, 'popularity', 0.5, 0)];"
    shown, exact = ask_lineup(tmp_path, large, body), _exact(large, tmp_path, body, monkeypatch)
    assert shown[0] == exact[0]
    for kind in (1, 2):
        assert [group["label"] for group in shown[kind]] == [group["label"] for group in exact[kind]]
        for own, true in zip(shown[kind], exact[kind], strict=True):
            assert own["queries"] == pytest.approx(true["queries"], rel=0.1)
            for model in range(3):
                half = (own["high"][model] - own["low"][model]) / 2
                assert own["values"][model] == pytest.approx(true["values"][model], abs=2 * half)


def test_a_surface_of_compressed_ranks_is_its_points(large: Lineup, tmp_path: Path) -> None:
    body = "return [surface(data, [0.3], [0.6]).scores.map((own) => own[0][0]), scores(data, 0.3, 0.6)];"
    grid, points = ask_lineup(tmp_path, large, body)
    assert grid == [own["value"] for own in points]


def test_without_popularity_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(payload_module, "MOST_RANKS", 1000)
    lineup = lined_up(rows=2000, popularity=False)
    body = "return [data.hasPopularity, scores(data, 0, 0.5).map((own) => own.value)];"
    shown, exact = ask_lineup(tmp_path, lineup, body), _exact(lineup, tmp_path, body, monkeypatch)
    assert shown[0] is False
    assert shown[1] == pytest.approx(exact[1], abs=1e-3)
    assert np.ptp(shown[1]) > 1e-3


def test_the_histogram_of_a_large_run_needs_few_arrays_of_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    lineup = _spread_out(400_000)
    monkeypatch.setattr("kgprobe.ranks.table._MOST_KEPT", 1000, raising=False)
    tracemalloc.start()
    try:
        histogram(lineup, [(1e-6, 1e-6)] * len(lineup.models))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60 * len(lineup)
