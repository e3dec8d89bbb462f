import csv
import json
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.comparison import line_up
from kgprobe.report.page.payload import About
from pages import CASES, ask_lineup, lined_up, made_up
from support import with_columns

POINTS = [
    *((alpha, beta) for alpha in (1.0, 0.5, 0.0, -0.5, -1.0) for beta in (0.0, 0.2, 0.8)),
    *((1e-9, 0.4), (-1e-9, -0.4), (5e-324, 1.0), (5.0, 2.0), (-5.0, -2.0), (5.0, -2.0), (0.123456789, 1.7)),
]


@pytest.mark.parametrize("case", CASES)
def test_scores_are_those_of_eval_at_every_point(case: str, tmp_path: Path) -> None:
    tables = made_up(**CASES[case])
    shown = ask_lineup(
        tmp_path, line_up(tables), f"return {json.dumps(POINTS)}.map(([alpha, beta]) => scores(data, alpha, beta));"
    )
    metrics = [kp.metrics.PROBE(alpha=alpha, beta=beta) for alpha, beta in POINTS]
    for model, table in enumerate(tables.values()):
        for point, exact in zip(shown, kp.scores(table, metrics), strict=True):
            own = point[model]
            assert own["model"] == model
            assert own["value"] == pytest.approx(exact.value, abs=1e-12)
            assert own["effective"] == pytest.approx(exact.effective, rel=1e-9)
            assert own["std"] == (None if exact.std is None else pytest.approx(exact.std, abs=1e-12))


@pytest.mark.parametrize("name", ["wn18rr", "umls"])
def test_published_ranks_give_the_values_of_the_paper(name: str, data: Path, tmp_path: Path) -> None:
    graph = kp.load_graph(data / "graphs" / name)
    files = sorted((data / "published_ranks" / name).glob("*.parquet"))
    lineup = line_up({file.stem: kp.read_ranks(file) for file in files}, graph=graph)
    with (data / "published_ranks" / "paper_tables.csv").open(encoding="utf-8") as table:
        printed = [row for row in csv.DictReader(table) if row["graph"] == name and row["model"] in lineup.models]
    points = [[lineup.models.index(row["model"]), float(row["alpha"]), float(row["beta"])] for row in printed]
    body = f"return {points}.map(([model, alpha, beta]) => scores(data, alpha, beta)[model].value);"
    shown = ask_lineup(tmp_path, lineup, body, About(graph=graph))
    assert len(printed) >= 60
    assert [f"{value:.4f}" for value in shown] == [f"{float(row['score']):.4f}" for row in printed]


def test_scores_are_exact_where_powers_overflow(tmp_path: Path) -> None:
    sizes = np.array([10**15, 10**12, 3, 2, 10**9, 1])
    ranks = np.array([1.0, 10**12, 2.5, 2, 123456, 1])
    table = kp.Ranks.from_columns(
        head=range(6), relation=[0] * 6, tail=[0] * 6, side=["tail"] * 6, rank=ranks, candidates=sizes
    )
    alphas = [5.0, -5.0, 60.0, -60.0, 100.0, -100.0]
    shown = ask_lineup(
        tmp_path, line_up({"mine": table}), f"return {alphas}.map((alpha) => scores(data, alpha, 0)[0].value);"
    )
    exact = kp.evaluate(table, [f"PROBE(alpha={alpha},beta=0)" for alpha in alphas])
    assert shown == pytest.approx(list(exact.values()), abs=1e-12)


@pytest.mark.parametrize("least", [0.001, 0.0007], ids=["same epsilon", "other epsilon"])
def test_a_model_whose_file_has_another_popularity_is_weighed_by_its_own(least: float, tmp_path: Path) -> None:
    tables = made_up(models=2)
    other = np.random.default_rng(5).choice([least, 0.04, 0.9], len(tables["model 1"]))
    tables["model 1"] = with_columns(tables["model 1"], entity_popularity=other)
    shown = ask_lineup(tmp_path, line_up(tables), "return scores(data, 0.5, 0.7).map((own) => own.value);")
    assert shown == pytest.approx(_evaluated(tables), abs=1e-12)


@pytest.mark.parametrize("least", [0.001, 1e-5], ids=["same epsilon", "other epsilon"])
def test_queries_with_a_single_candidate_count_neither_in_weights_nor_in_epsilon(least: float, tmp_path: Path) -> None:
    tables = made_up(models=2)
    single = np.arange(60) < 12
    for name, own in (("model 0", single), ("model 1", ~single)):
        table = tables[name]
        tables[name] = with_columns(
            table,
            rank=np.where(own, 1.0, table.rank),
            candidates=np.where(own, 1, table.candidates).astype(np.int64),
            entity_popularity=np.where(single, least, np.maximum(0.001, table.numbers("entity_popularity"))),
        )
    shown = ask_lineup(tmp_path, line_up(tables), "return scores(data, 0.5, 0.7).map((own) => own.value);")
    assert shown == pytest.approx(_evaluated(tables), abs=1e-12)


def _evaluated(tables: dict[str, kp.Ranks]) -> list[float]:
    return [kp.scores(table, "PROBE(alpha=0.5,beta=0.7)")[0].value for table in tables.values()]


def test_weights_of_any_size_do_not_overflow(tmp_path: Path) -> None:
    (table,) = made_up(models=1).values()
    tiny = np.random.default_rng(0).choice([1e-300, 1e-150, 0.5], len(table))
    table = with_columns(table, entity_popularity=tiny)
    shown = ask_lineup(
        tmp_path, line_up({"mine": table}), "return [-2, 2].map((beta) => scores(data, 1, beta)[0].value);"
    )
    exact = kp.evaluate(table, ["PROBE(alpha=1,beta=-2)", "PROBE(alpha=1,beta=2)"])
    assert shown == pytest.approx(list(exact.values()), abs=1e-12)


def test_without_popularity_beta_changes_nothing(tmp_path: Path) -> None:
    lineup = lined_up(popularity=False)
    shown = ask_lineup(
        tmp_path,
        lineup,
        "return [data.hasPopularity, scores(data, 1, 0), scores(data, 1, 0.8), breakdown(data, 'popularity', 1, 0)];",
    )
    assert shown[0] is False
    assert shown[1] == shown[2]
    assert shown[3] == []


def test_one_query_has_a_score_and_no_interval(tmp_path: Path) -> None:
    table = kp.Ranks.from_columns(head=[0], relation=[0], tail=[1], side=["tail"], rank=[2], candidates=[5])
    shown = ask_lineup(
        tmp_path,
        line_up({"one": table, "other": with_columns(table, rank=[3.0])}),
        "return [scores(data, 1, 0), differences(data, 1, 0), breakdown(data, 'side', 1, 0), queryCount(data)];",
    )
    assert [(own["value"], own["low"], own["trusted"]) for own in shown[0]] == [
        (pytest.approx(0.375), None, False),
        (pytest.approx(1 / 6), None, False),
    ]
    assert [own["beyond"] for own in shown[1]] == [False, False]
    assert [group["label"] for group in shown[2]] == ["tail"]
    assert shown[3] == 1
