import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgprobe.compare import Lineup
from kgprobe.report.page import compress, payload
from pages import ask_lineup, lined_up

POINTS = [(alpha, beta) for alpha in (-1.0, -0.5, 0.0, 0.5, 1.0) for beta in (0.0, 0.2, 0.4, 0.6, 0.8)]
ROWS, SAMPLED = 6000, 2000


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Lineup:
    """A line-up that is taken for one of too many ranks: three models, one with two runs."""
    monkeypatch.setattr(payload, "MOST_RANKS", 1000)
    monkeypatch.setattr(compress, "MOST_SAMPLED", 4 * SAMPLED)
    return lined_up(rows=ROWS, seeds=(2, 1, 1), single=50, other_candidates=True)


def _exact(lineup: Lineup, tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(payload, "MOST_RANKS", 10**9)
        return ask_lineup(tmp_path, lineup, body)


def test_scores_deviate_by_no_more_than_is_said(large: Lineup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"return [data.compression, {json.dumps(POINTS)}.map(([a, b]) => scores(data, a, b))];"
    sentence, shown = ask_lineup(tmp_path, large, body)
    _, exact = _exact(large, tmp_path, body, monkeypatch)
    pairs = [pair for own, true in zip(shown, exact, strict=True) for pair in zip(own, true, strict=True)]
    said = float(sentence.split("deviates by more than ")[1].split()[0])
    assert 0 < max(abs(own["value"] - true["value"]) for own, true in pairs) <= said * 1.05 < 1e-3
    assert [own["effective"] for own, _ in pairs] == pytest.approx([true["effective"] for _, true in pairs], rel=0.01)


def test_intervals_are_nearly_those_of_all_queries(
    large: Lineup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "return [[1, 0], [0, 0.4]].map(([a, b]) => [scores(data, a, b), differences(data, a, b)].flat()).flat();"
    shown, exact = ask_lineup(tmp_path, large, body), _exact(large, tmp_path, body, monkeypatch)
    for own, true in zip(shown, exact, strict=True):
        width, wanted = own["high"] - own["low"], true["high"] - true["low"]
        assert width == pytest.approx(wanted, rel=0.12, abs=1e-9)
        assert own["trusted"] == true["trusted"]


def test_the_sentence_says_what_was_done(large: Lineup, tmp_path: Path) -> None:
    sentence = ask_lineup(tmp_path, large, "return data.compression;")
    assert sentence.startswith("24,000 ranks are too many for a page")
    assert f"a random sample of {SAMPLED:,} queries" in sentence
    assert f"the {SAMPLED // 5:,} others on which the models differ most" in sentence
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
    monkeypatch.setattr(payload, "MOST_RANKS", 1000)
    lineup = lined_up(rows=2000, popularity=False)
    body = "return [data.hasPopularity, scores(data, 0, 0.5).map((own) => own.value)];"
    shown, exact = ask_lineup(tmp_path, lineup, body), _exact(lineup, tmp_path, body, monkeypatch)
    assert shown[0] is False
    assert shown[1] == pytest.approx(exact[1], abs=1e-3)
    assert np.ptp(shown[1]) > 1e-3
