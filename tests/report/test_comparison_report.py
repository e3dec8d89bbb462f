import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kgprobe as kp
from kgprobe.comparison.lineup import line_up, whole_tables
from kgprobe.errors import DataError, UsageError, one_line
from kgprobe.metrics import parse_all
from kgprobe.ranks import Ranks
from kgprobe.report.comparison_report import PageTests, Report, compare, default_metrics
from reporting import HOSTILE, NAMES, compiled, same
from support import random_ranks, with_columns

METRICS = ["PROBE(alpha=0.5,beta=0.4)", "MRR", "Hits@3", "MR", "MedianRank"]


def model(seed: int, worse: float = 0.0, runs: int = 1, rows: int = 240) -> Ranks:
    """Ranks of the same queries for every seed."""
    rng = np.random.default_rng(seed)
    triples = np.arange(rows // 2).repeat(2)
    one = {
        "head": triples,
        "relation": triples % 3,
        "tail": triples + 1000,
        "side": np.tile(["head", "tail"], rows // 2),
        "candidates": np.full(rows, 60),
        "entity_popularity": 0.001 * (1 + triples % 7),
        "relation_popularity": 0.1 * (1 + triples % 4),
    }
    tables = {
        run: Ranks.from_columns(**one, rank=np.minimum(rng.geometric(1 / (4 + worse), rows), 60)) for run in range(runs)
    }
    return tables[0] if runs == 1 else kp.merge_seeds(tables)


@pytest.fixture(scope="module")
def report() -> Report:
    tables = {"good": model(1, runs=2), "bad": model(2, worse=5, runs=2), "same": model(3, runs=2)}
    return compare(tables, METRICS, replicates=200, permutations=200)


def test_values_are_those_of_evaluate(report: Report) -> None:
    for name, table in report.tables.items():
        for metric, value in kp.evaluate(table, METRICS).items():
            (row,) = [r for r in report.to_rows() if r.get("model") == name and r["metric"] == metric]
            assert row["value"] == pytest.approx(value, rel=1e-12)
            (score,) = kp.scores(table, metric)
            assert row["std"] == pytest.approx(score.std, rel=1e-9)


def test_values_in_groups_are_those_of_scores() -> None:
    table = model(1)
    found = compare({"mine": table}, ["MRR", "MR"], by=["relation,side"], replicates=100)
    expected = {
        (str(s.metric), *s.group.values()): s.value for s in kp.scores(table, ["MRR", "MR"], by=["relation,side"])
    }
    rows = {(row["metric"], row["relation"], row["side"]): row["value"] for row in found.to_rows()}
    assert rows.keys() == expected.keys()
    assert all(rows[key] == pytest.approx(expected[key], rel=1e-12) for key in expected)


def test_rows_are_flat_and_of_two_kinds(report: Report) -> None:
    rows = report.to_rows()
    assert [row["kind"] for row in rows] == ["estimate"] * 15 + ["difference"] * 15
    assert all(value is None or isinstance(value, str | int | float | bool) for row in rows for value in row.values())
    assert set(rows[0]) == {
        "kind", "ranks", "model", "metric", "value", "least", "most", "low", "high", "level", "method", "trusted",
        "remark", "std", "seeds", "queries", "clusters", "effective", "place", "within_noise", "beats", "reason",
        "flagged", "objections",
    }  # fmt: skip
    assert {"first", "second", "metric", "value", "low", "high", "p", "p_holm", "p_bh"} <= rows[-1].keys()
    assert {(row["correction"], row["tests"]) for row in rows[15:]} == {("max-t", 3)}


def test_json_parsed_back_is_the_rows(report: Report) -> None:
    back = json.loads(report.to_json(), parse_constant=pytest.fail)
    for read, row in zip(back, report.to_rows(), strict=True):
        assert read.keys() == row.keys()
        for key, value in row.items():
            finite = not isinstance(value, float) or math.isfinite(value)
            assert read[key] == (value if finite else None)


def test_csv_parsed_back_has_the_same_numbers(report: Report) -> None:
    back = list(csv.DictReader(io.StringIO(report.to_csv())))
    for read, row in zip(back, report.to_rows(), strict=True):
        for key in ("value", "low", "high", "p", "p_holm", "p_bh", "std", "effective"):
            value = row.get(key)
            assert same(
                float(read[key]) if read[key] else None, value if value is None or math.isfinite(value) else None
            )


def test_a_table_has_a_row_for_every_model_and_a_column_for_every_metric(report: Report) -> None:
    lines = report.to_markdown().splitlines()
    assert [line.split(" | ")[0] for line in lines[2:5]] == ["| good", "| bad", "| same"]
    assert {line.count(" | ") for line in lines[:5]} == {len(METRICS)}
    assert str(report).splitlines()[0].split()[:2] == ["model", "PROBE(\N{GREEK SMALL LETTER ALPHA}=0.5,"]
    assert "\x1b" not in str(report)


def test_the_table_of_a_paper_compiles_with_any_names(tmp_path: Path) -> None:
    tables = {name: model(seed) for seed, name in enumerate(HOSTILE)}
    report = compare(tables, METRICS, replicates=100, permutations=100, by=["side"])
    styled = report.with_style(intervals=True, letters=True)
    compiled(styled.to_latex(standalone=True, caption="All $\\alpha$.", label="tab:all"), tmp_path)


@settings(max_examples=10)
@given(st.lists(NAMES, min_size=2, max_size=2, unique=True))
def test_any_names_are_text_everywhere(names: list[str]) -> None:
    report = compare(
        {name: model(i, rows=20) for i, name in enumerate(names)}, ["MRR"], replicates=100, permutations=20
    )
    assert [row["model"] for row in json.loads(report.to_json())[:2]] == names
    assert [row["model"] for row in csv.DictReader(io.StringIO(report.to_csv(), newline=""))][:2] == list(
        map(one_line, names)
    )
    assert "<script" not in report._repr_html_()
    assert report.to_latex().isascii()
    assert len([line for line in report.to_markdown().split("\n") if line.startswith("|")]) == 4


def test_a_notebook_shows_it_as_a_table(report: Report) -> None:
    shown = report._repr_html_()
    assert shown.count("<tr") == 4
    best = [standing for by_model in report.standings.values() for standing in by_model.values() if standing.place == 1]
    assert shown.count("background:#F8A602") == len(best) >= len(METRICS)
    assert repr(report) == "Report(3 models, 5 metrics, 240 queries)"


def test_style_is_kept(report: Report) -> None:
    styled = report.with_style(intervals=True, letters=True, digits=2)
    assert "In brackets: 95 % confidence intervals" in str(styled)
    assert "superscript letters" in str(styled)
    assert r"\[" in styled.to_markdown()
    assert r"\[" not in report.to_markdown()
    low = next(row for row in report.to_rows() if row["metric"] == "MRR")["low"]
    assert f"[{low:.2f}, " in str(styled)


@pytest.mark.parametrize(
    ("ending", "begins"),
    [("md", "| model"), ("TEX", "% needs"), ("csv", "kind,ranks,model"), ("json", "[\n"), ("txt", "model")],
)
def test_files_are_what_their_ending_says(report: Report, tmp_path: Path, ending: str, begins: str) -> None:
    path = tmp_path / "folder" / f"table.{ending}"
    report.write(path)
    assert path.read_text(encoding="utf-8").startswith(begins)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_page_is_written_whole(report: Report, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("plotly")
    report.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8").rstrip().endswith("</html>")


def test_an_unknown_ending_names_the_known_ones(report: Report, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"\.html, \.md, \.tex, \.csv, \.json, \.txt"):
        report.write(tmp_path / "table.docx")


def test_paths_and_files_are_read_and_named(tmp_path: Path) -> None:
    for name in ("one", "other"):
        model(len(name), runs=2).write(tmp_path / f"{name}.parquet")
    sources = {
        "one": tmp_path / "one.parquet",
        "other": kp.RankFile(tmp_path / "other.parquet"),
        "table": model(4, runs=2),
    }
    report = compare(sources, ["MRR"], replicates=100, permutations=20)
    assert [row["ranks"] for row in report.to_rows()[:3]] == [
        str(tmp_path / "one.parquet"),
        str(tmp_path / "other.parquet"),
        None,
    ]
    assert report.to_rows()[1]["value"] == pytest.approx(kp.evaluate(model(5, runs=2), "MRR")["MRR"])


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    table = model(1).to_arrow()
    at = table.column_names.index("rank")
    path = tmp_path / "bad.parquet"
    Ranks(table.set_column(at, "rank", [[0.5] * len(table)]), validate=False).write(path)
    with pytest.raises(DataError, match=r"bad\.parquet"):
        compare({"mine": kp.RankFile(path)}, ["MRR"])


def test_an_empty_file_is_a_table_without_rows(tmp_path: Path) -> None:
    model(1).filter(np.zeros(240, dtype=bool)).write(tmp_path / "empty.parquet")
    assert len(whole_tables(kp.RankFile(tmp_path / "empty.parquet"))["empty"]) == 0


def test_models_with_other_queries_are_compared_on_request_and_it_is_said() -> None:
    tables = {"all": model(1), "some": model(2, rows=200)}
    with pytest.raises(DataError, match="do not rank the same queries"):
        compare(tables, ["MRR"])
    report = compare(tables, ["MRR"], common=True, replicates=100, permutations=20)
    assert report.remarks == ["40 queries of all that not all models have are left out."]
    assert report.remarks[0] in str(report)


def test_few_runs_and_other_candidates_are_remarked_on() -> None:
    one, other = model(1, runs=3), with_columns(model(2, runs=3), candidates=np.full(720, 70))
    found = compare({"one": one, "other": other}, "MRR", replicates=100)
    assert found.remarks == [
        "`kgprobe check` objects to one: other has more candidates than one (10 more in every query): fewer triples "
        "were filtered.",
        "`kgprobe check` objects to other: other has more candidates than one (10 more in every query): fewer triples "
        "were filtered.",
        "other is not tested against one, because candidate sets differ in 240 queries.",
        "With 3 training runs of a model, only large differences are significant with random seeds; fixed seeds "
        "compare these runs alone.",
    ]
    assert all(remark in " ".join(str(found).split()) for remark in found.remarks)
    third = model(3, runs=3)
    assert compare({"one": one, "third": third}, "MRR", seeds="fixed", replicates=100, permutations=20).remarks == []


def test_default_metrics_weigh_by_popularity_where_it_is_known() -> None:
    known, unknown = model(1), Ranks(model(1).to_arrow().drop_columns(["entity_popularity", "relation_popularity"]))
    names = [
        [str(metric) for metric in default_metrics(compare({"mine": table}, "MRR", replicates=100).lineup)]
        for table in (known, unknown)
    ]
    assert names[1] == [
        "PROBE(alpha=1,beta=0)", "PROBE(alpha=0,beta=0)", "PROBE(alpha=-1,beta=0)", "MRR", "Hits@1", "Hits@10", "MR"
    ]  # fmt: skip
    assert set(names[0]) - set(names[1]) == {"PROBE(alpha=1,beta=0.8)"}
    some = with_columns(known, entity_popularity=[None, *known.numbers("entity_popularity")[1:]])
    assert len(compare({"mine": some}, replicates=100).to_rows()) == 7
    for tables in ({"one": known, "other": unknown}, {"other": unknown, "one": known}):
        found = compare(tables, replicates=100, permutations=20)
        assert [row["metric"] for row in found.to_rows()[:14:2]] == names[1]
    by_default = compare({"mine": unknown}, replicates=100).to_rows()
    assert [row["metric"] for row in by_default] == names[1]


def test_findings_of_the_audit_are_there_for_one_file_too(report: Report) -> None:
    assert report.findings == []
    late = with_columns(model(1), rank=1 + model(1).rank.clip(max=59))
    found = compare({"only": late}, "MRR", replicates=100)
    assert [finding.kind for finding in found.findings] == ["rank values"]
    assert found.to_rows()[0]["flagged"] is True


def test_relations_have_names_where_the_graph_has_them(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a\tlikes\tb\nb\tknows\tc\nc\tlikes\ta\n", encoding="utf-8")
    (tmp_path / "test.txt").write_text("a\tknows\tc\n", encoding="utf-8")
    graph = kp.load_graph(tmp_path)
    (head, relation, tail), *_ = graph.triples("test").tolist()
    ranks = {
        name: Ranks.from_columns(
            head=[head] * 2,
            relation=[relation] * 2,
            tail=[tail] * 2,
            side=["head", "tail"],
            rank=rank,
            candidates=[3, 3],
        )
        for name, rank in {"one": [1, 2], "other": [3, 1]}.items()
    }
    report = compare(ranks, ["MRR"], graph=graph, by=["relation"], replicates=100, permutations=10)
    assert [row["relation_label"] for row in report.to_rows()] == ["knows"] * 3
    assert "relation knows" in str(report)


def test_the_same_seed_gives_the_same_report_and_progress_ends_at_all_of_it() -> None:
    tables = {"one": model(1), "other": model(2)}
    done: list[float] = []
    first = compare(tables, METRICS, by=["side"], replicates=300, permutations=100, progress=done.append)
    again = compare(tables, METRICS, by=["side"], replicates=300, permutations=100)
    assert first.to_json() == again.to_json()
    assert sum(done) == pytest.approx(1)


def test_wrong_requests_are_refused() -> None:
    tables = {"one": random_ranks(1)}
    for wrong in (
        {"correction": "bonferroni"},
        {"cluster": "colour"},
        {"level": 2.0},
        {"seeds": "many"},
        {"tie": "luck"},
    ):
        with pytest.raises(UsageError):
            compare(tables, "MRR", replicates=100, **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError):
        compare({}, "MRR")


def test_the_published_order_and_what_of_it_is_beyond_noise(data: Path) -> None:
    files = {path.stem: path for path in sorted((data / "published_ranks/wn18rr").glob("*.parquet"))}
    names = ["PROBE(alpha=1,beta=0)", "PROBE(alpha=-1,beta=0)"]
    report = compare(files, names, seeds="fixed", replicates=1000, permutations=1000)
    sharp, blunt = ({m: s.place for m, s in by_model.items()} for by_model in report.standings.values())
    assert (sharp["HousE"], blunt["HousE"]) == (6, 1)
    (rise,) = [s["HousE"] for s in list(report.standings.values())[1:]]
    assert {"ComplEx", "RNNLogic", "RotatE", "TuckER"} <= set(rise.beats)


def test_a_page_tests_fewer_pairs_and_draws_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {name: model(i, rows=60) for i, name in enumerate("abc")}
    tests = PageTests.of(line_up(tables), parse_all("MRR, Hits@1"))
    assert tests.draws == 10_000
    assert not tests.too_many
    assert PageTests.of(tests.lineup).metrics == default_metrics(tests.lineup)
    monkeypatch.setattr("kgprobe.report.comparison_report._MOST_PRODUCTS", 60 * 6 * 1_500)
    fewer = PageTests.of(tests.lineup, tests.metrics)
    assert fewer.draws == 1_500
    done: list[float] = []
    every = fewer.compare(progress=done.append)
    assert sum(done) == fewer.total
    assert len(every.differences) == 2 * 3
    monkeypatch.setattr("kgprobe.report.comparison_report._FEW_MODELS", 2)
    monkeypatch.setattr("kgprobe.report.comparison_report._MOST_QUERIES", 59)
    assert len(fewer.compare().differences) == 2 * 2
    assert fewer.too_many
    assert PageTests.of(tests.lineup, tests.metrics, 7).draws == 7
