import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import kgprobe as kp
from kgprobe.comparison import compare_models, line_up
from kgprobe.decision import map_band
from kgprobe.report.page.payload import About
from pages import CASES, Plain, ask_lineup, lined_up, made_up, plain_band, plain_interval
from support import with_columns


def published(data: Path, runs: tuple[int, ...]) -> dict[str, kp.Ranks]:
    """Published ranks; one of the models in these runs alone."""
    files = sorted((data / "published_ranks" / "wn18rr").glob("*.parquet"))
    tables = {file.stem: kp.read_ranks(file) for file in files}
    tables["HousE"] = tables["HousE"].filter(np.isin(tables["HousE"].seed, runs))
    return tables


@pytest.mark.parametrize("case", ["one seed", "seeds", "some seeds", "single candidates", "odd number of queries"])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_intervals_of_scores_and_differences(case: str, level: float, tmp_path: Path) -> None:
    lineup = lined_up(**CASES[case])
    points = [(1.0, 0.0), (0.0, 0.5), (-1.0, -0.3)]
    shown = ask_lineup(
        tmp_path,
        lineup,
        f"return {json.dumps(points)}.map(([a, b]) => [scores(data, a, b), differences(data, a, b)]);",
        About(level=level),
    )
    random_seeds = all(len(runs) > 1 for runs in lineup.runs.values())
    narrow, wide = map_band(lineup, level=level), map_band(lineup, [-5, 5], [-2, 2], level=level)
    assert stats.norm.ppf((1 + level) / 2) < narrow < wide
    for (alpha, beta), (scored, differing) in zip(points, shown, strict=True):
        plain = [Plain(lineup, model, alpha, beta) for model in lineup.models]
        best = max(range(len(plain)), key=lambda model: plain[model].value)
        width = narrow if beta >= 0 else wide
        for model, own in enumerate(plain):
            low, high = plain_interval(own, level, random_seeds=random_seeds)
            assert [scored[model]["low"], scored[model]["high"]] == pytest.approx(
                [max(low, 0), min(high, 1)], abs=1e-5 if len(own.values) > 1 else 1e-12
            )
            found = differing[model]
            assert (found["model"], found["against"]) == (model, best)
            assert found["value"] == pytest.approx(own.value - plain[best].value, abs=1e-12)
            if model != best:
                low, high = plain_band(own, plain[best], width, random_seeds=random_seeds)
                assert [found["low"], found["high"]] == pytest.approx([max(low, -1), min(high, 1)], abs=1e-5)


def test_places_and_ties_of_places(tmp_path: Path) -> None:
    tables = made_up(models=3)
    tables["a copy of model 0"] = tables["model 0"]
    shown = ask_lineup(tmp_path, line_up(tables), "return [scores(data, 1, 0), differences(data, 1, 0)];")
    values = [own["value"] for own in shown[0]]
    assert [own["place"] for own in shown[0]] == [1 + sum(other > own for other in values) for own in values]
    assert values[0] == values[3]
    copy = shown[1][3]
    assert copy["beyond"] is False or copy["value"] < 0


@pytest.mark.parametrize("rows", [150, 4000])
def test_few_effective_queries_are_not_trusted(rows: int, tmp_path: Path) -> None:
    shown = ask_lineup(tmp_path, lined_up(rows=rows, models=2), "return [scores(data, 1, 0), differences(data, 1, 0)];")
    assert [own["trusted"] for own in shown[0]] == [rows >= 200] * 2
    assert ["too few effective queries" in (own["remark"] or "") for own in shown[0]] == [rows < 200] * 2
    assert all(not own["beyond"] for own in shown[1]) or rows >= 200


def test_a_score_that_hangs_on_a_few_triples_is_not_trusted(tmp_path: Path) -> None:
    rows = 1000
    rank = np.ones(rows)
    rank[:4] = 50
    table = kp.Ranks.from_columns(
        head=range(rows), relation=[0] * rows, tail=[0] * rows, side=["tail"] * rows, rank=rank, candidates=[99] * rows
    )
    perfect = with_columns(table, rank=np.ones(rows))
    shown = ask_lineup(tmp_path, line_up({"few": table, "perfect": perfect}), "return scores(data, 1, 0);")
    assert [own["trusted"] for own in shown] == [False, False]
    assert "A few test triples" in shown[0]["remark"]
    assert "pull alike" in shown[1]["remark"]
    assert (shown[1]["low"], shown[1]["high"]) == (1, 1)


def test_a_score_that_varies_by_rounding_alone_does_not_vary(tmp_path: Path) -> None:
    rows = 700
    alike = kp.Ranks.from_columns(
        head=range(rows),
        relation=[0] * rows,
        tail=[0] * rows,
        side=["tail"] * rows,
        rank=[3] * rows,
        candidates=[97] * rows,
        entity_popularity=np.linspace(0.001, 0.7, rows),
        relation_popularity=np.linspace(0.1, 0.9, rows),
    )
    shown = ask_lineup(
        tmp_path, line_up({"alike": alike}), "return [0.3, 0.7, 1].map((a) => scores(data, a, 0.37)[0]);"
    )
    assert all("pull alike" in own["remark"] and own["low"] == own["high"] for own in shown)


def test_the_page_trusts_the_intervals_that_compare_trusts(data: Path, tmp_path: Path) -> None:
    graph = kp.load_graph("wn18rr")
    files = sorted((data / "published_ranks" / "wn18rr").glob("*.parquet"))
    tables = {file.stem: kp.read_ranks(file) for file in files}
    lineup = line_up({name: table.filter(table.seed == 1) for name, table in tables.items()}, graph=graph)
    points = [(1, 0), (1, 0.8), (1, 4), (-1, 0.8), (-20, 0), (-60, 0), (-20, 1.5), (-60, -1.5), (4, -2)]
    shown = ask_lineup(
        tmp_path, lineup, f"return {json.dumps(points)}.map(([a, b]) => scores(data, a, b));", About(graph=graph)
    )
    metrics = [f"PROBE(alpha={alpha},beta={beta})" for alpha, beta in points]
    found = compare_models(lineup, metrics, replicates=100, permutations=1)
    by_metric = {str(kp.parse(metric)): [] for metric in metrics}
    for estimate in found.estimates:
        by_metric[str(estimate.metric)].append(estimate.interval.trusted)
    trusted = [[own["trusted"] for own in scored] for scored in shown]
    assert trusted == list(by_metric.values())
    assert {True, False} <= {one for row in trusted for one in row}


@pytest.mark.parametrize("runs", [(1, 2, 3), (1, 2)])
def test_the_page_has_the_intervals_of_compare_where_seeds_are_random(
    runs: tuple[int, ...], data: Path, tmp_path: Path
) -> None:
    graph = kp.load_graph("wn18rr")
    lineup = line_up(published(data, runs), graph=graph)
    points = [(1, 0), (0, 0.5), (-1, 0.8), (1, 0.8), (0.3, -0.5), (3, 1.5)]
    shown = ask_lineup(
        tmp_path, lineup, f"return {json.dumps(points)}.map(([a, b]) => scores(data, a, b));", About(graph=graph)
    )
    metrics = [f"PROBE(alpha={alpha},beta={beta})" for alpha, beta in points]
    compared = compare_models(lineup, metrics, replicates=100, permutations=1).estimates
    wanted = {(str(one.metric), one.model): one.interval for one in compared}
    for metric, scored in zip(metrics, shown, strict=True):
        for model, own in zip(lineup.models, scored, strict=True):
            interval = wanted[str(kp.parse(metric)), model]
            assert own["high"] - own["low"] == pytest.approx(interval.high - interval.low, rel=1e-4)
            assert own["low"] == pytest.approx(interval.low, abs=1e-6)


def test_a_large_lead_is_beyond_noise_and_a_small_one_is_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = 3000
    common: dict[str, Any] = {
        "head": range(rows),
        "relation": [0] * rows,
        "tail": [0] * rows,
        "side": ["tail"] * rows,
        "candidates": [100] * rows,
    }
    ranks = [np.ceil(100 * rng.random(rows) ** power) for power in (3, 3, 1)]
    lineup = line_up({str(i): kp.Ranks.from_columns(rank=rank, **common) for i, rank in enumerate(ranks)})
    shown = ask_lineup(tmp_path, lineup, "return [differences(data, 0, 0), surface(data, [0, 1], [0])];")
    best = shown[0][0]["against"]
    assert best in (0, 1)
    assert [own["beyond"] for own in shown[0]] == [False, False, True]
    assert [cell for row in shown[1]["beyond"] for cell in row] == [0, 0]


def test_a_surface_is_its_points(tmp_path: Path) -> None:
    lineup = lined_up(rows=800, seeds=(2, 1))
    alphas, betas = [-1.0, 0.0, 0.7], [0.0, 0.4]
    shown = ask_lineup(
        tmp_path,
        lineup,
        f"const [A, B] = [{alphas}, {betas}];"
        "return [surface(data, A, B), A.map((a) => B.map((b) => [scores(data, a, b), differences(data, a, b)]))];",
    )
    grid, points = shown
    for a in range(len(alphas)):
        for b in range(len(betas)):
            scored, differing = points[a][b]
            assert [own[a][b] for own in grid["scores"]] == [own["value"] for own in scored]
            order = sorted(range(len(scored)), key=lambda model: -scored[model]["value"])
            assert grid["winner"][a][b] == order[0]
            assert bool(grid["beyond"][a][b]) == all(differing[model]["beyond"] for model in order[1:])


@pytest.mark.parametrize("runs", [(1, 2, 3), (1, 2)])
def test_the_page_has_the_bands_of_the_decision_map(runs: tuple[int, ...], data: Path, tmp_path: Path) -> None:
    graph = kp.load_graph("wn18rr")
    lineup = line_up(published(data, runs), graph=graph)
    plane = kp.decision_map(lineup, allow_different_candidates=True)
    shown = ask_lineup(
        tmp_path,
        lineup,
        f"const [A, B] = [{plane.alphas.tolist()}, {plane.betas.tolist()}];"
        "return A.map((a) => B.map((b) => differences(data, a, b)));",
        About(graph=graph, allow_different_candidates=True),
    )
    for a, row in enumerate(shown):
        for b, point in enumerate(row):
            for own in point:
                if own["model"] != own["against"]:
                    wanted = min(own["value"] + plane.bands[own["model"], own["against"], a, b], 1)
                    assert own["high"] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("allowed", [True, False], ids=["all tested", "equal candidates tested"])
def test_the_page_and_the_decision_map_call_the_same_leads_beyond_noise(
    data: Path, tmp_path: Path, allowed: bool
) -> None:
    graph = kp.load_graph("wn18rr")
    lineup = line_up(published(data, (1, 2, 3)), graph=graph)
    plane = kp.decision_map(lineup, allow_different_candidates=allowed)
    shown = ask_lineup(
        tmp_path,
        lineup,
        f"return surface(data, {plane.alphas.tolist()}, {plane.betas.tolist()});",
        About(graph=graph, allow_different_candidates=allowed),
    )
    assert shown["winner"] == plane.winner.tolist()
    assert np.array_equal(np.array(shown["beyond"]) == 1, plane.beyond_noise)
    assert (0 < plane.beyond_noise.sum() < plane.beyond_noise.size) == allowed


def test_the_histogram_counts_evaluated_ranks_in_the_bins_of_the_paper(tmp_path: Path) -> None:
    rank = [1, 1.5, 2, 2.5, 10, 10.5, 100, 101, 1000, 1000.5, 5000, 1]
    table = kp.Ranks.from_columns(
        head=range(12), relation=[0] * 12, tail=[0] * 12, side=["tail"] * 12, rank=rank, candidates=[9000] * 11 + [1]
    )
    shown = ask_lineup(tmp_path, line_up({"mine": table}), "return histogram(data, 0);")
    assert shown == {
        "bins": ["1", "2", "3-10", "11-100", "101-1,000", ">1,000"],
        "counts": [1, 2, 2, 2, 2, 2],
    }


def test_the_histogram_is_the_mean_over_seeds(tmp_path: Path) -> None:
    lineup = lined_up(seeds=(3, 1))
    shown = ask_lineup(tmp_path, lineup, "return histogram(data, 0).counts;")
    runs = lineup.runs["model 0"]
    assert shown[0] == pytest.approx(np.mean([(run.rank <= 1).sum() for run in runs]))
    assert sum(shown) == pytest.approx(len(lineup))
