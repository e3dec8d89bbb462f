import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from browser import made_graph
from kgprobe.comparison import Lineup, line_up
from kgprobe.metrics import parse_all
from kgprobe.metrics.popularity_metrics import PROBE
from kgprobe.openworld.consistency import consistency
from kgprobe.report.latex_tables import latex_text
from kgprobe.studies.study_tables import (
    ENDINGS,
    StudyTable,
    absent,
    absent_text,
    consistency_table,
    graph_table,
    property_metrics,
    property_table,
    score_table,
    shown_graphs,
    verdict_table,
)
from kgprobe.studies.verdicts import SourceRanks
from reporting import HOSTILE, compiled
from study_results import STUDY, small_result, small_source, small_study, small_tables

ALPHAS = [PROBE(alpha=alpha, beta=0.0) for alpha in (1.0, 0.0, -1.0)]

GRAPHS = {"made-up": made_graph()}

SOURCE = small_source("mine", GRAPHS, worlds=True, unfiltered=("plain",))


def _text(table: StudyTable, model: str, column: int) -> str:
    lines = {line.cells[0].text: line for line in table.grids[0].lines}
    return lines[model].cells[column].text


def test_scores_and_places_are_those_of_the_rank_tables(tmp_path: Path) -> None:
    table = score_table(small_study(tmp_path), SOURCE, ALPHAS, "rq1", "Scores")
    tables = small_tables(GRAPHS["made-up"], unfiltered=("plain",))
    for column, metric in enumerate(ALPHAS, 1):
        wanted = {
            model: kp.evaluate(ranks.with_popularity(GRAPHS["made-up"].popularity), [metric])[str(metric)]
            for model, ranks in tables.items()
        }
        order = sorted(wanted, key=lambda model: -wanted[model])
        for model, value in wanted.items():
            cell = next(line for line in table.grids[0].lines if line.cells[0].text == model).cells[column]
            assert cell.text == f"{value:.4f}"
            assert cell.place == 1 + order.index(model)
            assert cell.deviation == ""


def test_daggers_are_those_of_a_comparison(tmp_path: Path) -> None:
    """The marks agree with `kp.compare` on the same tables."""
    table = score_table(small_study(tmp_path), small_source("sound", GRAPHS), ALPHAS, "rq1", "Scores")
    report = kp.compare(
        small_tables(GRAPHS["made-up"]), ALPHAS, graph=GRAPHS["made-up"], replicates=2000, permutations=2000
    )
    wanted = {
        (row["model"], row["metric"]): row["within_noise"] for row in report.to_rows() if row["kind"] == "estimate"
    }
    found = {(row["model"], row["metric"]): row["within_noise"] for row in table.rows if "value" in row}
    assert found == wanted
    assert True in found.values()
    marked = {cell.marks for line in table.grids[0].lines for cell in line.cells}
    assert "†" in marked
    assert any(note.startswith("†") for note in table.grids[0].notes)


def test_missing_cells_say_out_of_memory_or_nothing(tmp_path: Path) -> None:
    lineup = SOURCE.lineups["made-up"]
    runs = {model: own for model, own in lineup.runs.items() if model != "even"}
    source = replace(SOURCE, lineups={"made-up": replace(lineup, runs=runs)})
    table = score_table(small_study(tmp_path), source, ALPHAS, "rq1", "Scores")
    assert _text(table, "large", 1) == "O.O.M."
    assert _text(table, "even", 1) == "–"  # noqa: RUF001
    reasons = {row["model"]: row["reason"] for row in table.rows if "value" not in row}
    assert reasons == {"large": "out of memory: 94 GiB are not there", "even": "no ranks of even on made-up"}
    assert any(note.startswith("O.O.M.") for note in table.grids[0].notes)


def test_a_graph_without_ranks_is_left_out_unless_memory_ran_out(tmp_path: Path) -> None:
    study = small_study(tmp_path)
    assert shown_graphs(study, SOURCE) == ["made-up"]
    other = replace(SOURCE, missing={("absent", "sharp"): "out of memory: 1 GiB"})
    assert shown_graphs(study, other) == ["made-up", "absent"]
    assert _text(score_table(study, other, ALPHAS, "rq1", "Scores"), "sharp", 4) == "O.O.M."


def test_reasons_are_of_the_model_or_else_of_the_graph() -> None:
    assert absent(SOURCE, "made-up", "sharp") is None
    assert absent(SOURCE, "made-up", "large") == "out of memory: 94 GiB are not there"
    assert absent(SOURCE, "absent", "sharp") == "mine has no ranks of absent"
    assert absent(SOURCE, "unheard of", "sharp") == "no ranks of sharp on unheard of"
    assert absent_text("it ran out of memory", "no ranks") == "no ranks"


def test_models_that_the_audit_objects_to_are_marked(tmp_path: Path) -> None:
    table = score_table(small_study(tmp_path), SOURCE, ALPHAS, "rq1", "Scores")
    lines = {line.cells[0].text: line.cells[1:] for line in table.grids[0].lines}
    assert all("*" in cell.marks for cell in lines["plain"])
    assert not any("*" in cell.marks for model in ("sharp", "even") for cell in lines[model])
    assert {row["model"] for row in table.rows if row.get("flagged")} == {"plain"}


def test_three_graphs_are_side_by_side(tmp_path: Path) -> None:
    study = small_study(tmp_path, STUDY.replace('"absent"', '"b", "c", "d"'))
    lineup = SOURCE.lineups["made-up"]
    source = SourceRanks("mine", dict.fromkeys(study.graphs, lineup))
    table = score_table(study, source, ALPHAS, "rq1", "Scores")
    heads = [[name for name, _ in grid.spans(0) if name] for grid in table.grids]
    assert heads == [["made-up", "b", "c"], ["d"]]
    assert [len(grid.columns) for grid in table.grids] == [10, 4]
    assert len(table.rows) == 4 * 4 * 3


def test_scores_that_cannot_be_computed_are_noted(tmp_path: Path) -> None:
    lineup = SOURCE.lineups["made-up"]
    unpopular = Lineup(
        {
            model: tuple(
                kp.Ranks.from_columns(
                    head=run.head,
                    relation=run.relation,
                    tail=run.tail,
                    side=np.where(run.predicts_tail, "tail", "head"),
                    rank=run.rank,
                    candidates=run.candidates,
                )
                for run in own
            )
            for model, own in lineup.runs.items()
        },
        lineup.left_out,
    )
    source = replace(SOURCE, lineups={"made-up": unpopular})
    study = small_study(tmp_path)
    table = score_table(study, source, [PROBE(alpha=1.0, beta=0.8)], "rq2", "Scores")
    assert _text(table, "sharp", 1) == "–"  # noqa: RUF001
    assert any("popularity" in note for note in table.grids[0].notes)
    assert _text(score_table(study, source, ALPHAS, "rq1", "Scores"), "sharp", 1).startswith("0.")


def test_one_model_has_scores_and_no_places(tmp_path: Path) -> None:
    alone = line_up({"sharp": small_tables(GRAPHS["made-up"])["sharp"]}, graph=GRAPHS["made-up"])
    table = score_table(small_study(tmp_path), SourceRanks("mine", {"made-up": alone}), ALPHAS, "rq1", "Scores")
    cells = next(line for line in table.grids[0].lines if line.cells[0].text == "sharp").cells[1:]
    assert all(cell.text.startswith("0.") and cell.place is None for cell in cells)


def test_statistics_of_graphs_are_counted() -> None:
    graph = kp.KnowledgeGraph.from_triples(train=[[0, 0, 1], [1, 0, 1]], test=[[1, 0, 0]])
    table = graph_table({"tiny": graph}, "Graphs")
    shown = dict(zip([c.headings[0] for c in table.grids[0].columns], table.grids[0].lines[0].cells, strict=True))
    texts = {name: cell.text for name, cell in shown.items()}
    assert texts == {
        "graph": "tiny",
        "entities": "2",
        "relations": "1",
        "train": "2",
        "valid": "0",
        "test": "1",
        "mean degree": "2.00",
        "max degree": "3",
        "unseen entities": "0",
        "inverse leakage": "1.00",
    }
    assert table.rows[0]["graph"] == "tiny"


def test_properties_are_found_and_differences_from_the_paper_marked(tmp_path: Path) -> None:
    assert [str(metric) for metric in property_metrics(small_study(tmp_path).claims)] == ["MRR"]
    table = property_table(parse_all("MRR, Hits@10"), "Properties")
    shown = {line.cells[0].text: [cell.text for cell in line.cells[1:]] for line in table.grids[0].lines}
    assert shown == {
        "fixed optimum": ["yes", "yes"],
        "fixed pessimum": ["no", "no (!)"],
        "anti-monotonicity": ["yes", "no"],
        "candidate-size awareness": ["no", "no"],
        "sharpness awareness": ["no", "no (!)"],
        "popularity awareness": ["no", "no"],
    }
    assert sum(note.startswith("Hits@10, ") for note in table.grids[0].notes) == 2


def test_verdicts_are_side_by_side(tmp_path: Path) -> None:
    result = small_result(tmp_path, sources=2)
    table = verdict_table(result.verdicts, "Verdicts")
    assert [column.headings[0] for column in table.grids[0].columns[3:]] == ["source-0", "source-1"]
    shown = {line.cells[1].text: tuple(cell.text for cell in line.cells[3:]) for line in table.grids[0].lines}
    wanted = {
        claim.name: tuple(str(v.answer) for v in result.verdicts if v.claim is claim) for claim in result.study.claims
    }
    assert shown == wanted
    assert shown["first"] == ("cannot be trusted", "holds for the method")
    assert len(table.rows) == len(result.verdicts)


def test_consistency_is_that_of_the_points() -> None:
    points = SOURCE.worlds[0.25]
    table = consistency_table(SOURCE.worlds, "Consistency")
    rows = {row["metric"]: row for row in table.rows if row["kind"] == "consistency"}
    for number, metric in enumerate(points.metrics):
        assert rows[str(metric)]["tau"] == consistency(points, number).every.tau


def test_data_can_be_read_again(tmp_path: Path) -> None:
    table = score_table(small_study(tmp_path), SOURCE, ALPHAS, "rq1", "Scores")
    rows = list(csv.DictReader(io.StringIO(table.text(".csv"))))
    first = table.rows[0]
    assert rows[0]["graph"] == "made-up"
    assert float(rows[0]["value"]) == first["value"]
    assert (float(rows[0]["alpha"]), float(rows[0]["beta"])) == (1.0, 0.0)
    assert len(rows) == len(table.rows)


def test_notes_that_explain_marks_are_shown_and_others_on_demand(tmp_path: Path) -> None:
    html = score_table(small_study(tmp_path), SOURCE, ALPHAS, "rq1", "Scores").text(".html")
    before, _, folded = html.partition("<details")
    assert "* `kgprobe check` objects to the rank file" in before
    assert "O.O.M.: the training ran out of memory." in before
    assert "Mean over 2 seeds;" in folded
    assert "± standard deviation" not in html


def _document(*tables: StudyTable) -> str:
    packages = ("geometry", "array", "booktabs", "longtable", "graphicx", "xcolor", "colortbl")
    return "\n".join(
        [
            r"\documentclass{article}",
            *(rf"\usepackage{{{package}}}" for package in packages),
            r"\begin{document}",
            *(table.text(".tex") for table in tables),
            r"\end{document}",
        ]
    )


def _named(verdicts: StudyTable) -> StudyTable:
    """The table with names that try to break out of a cell."""
    grid = verdicts.grids[0]
    lines = [
        replace(
            line, cells=tuple(replace(cell, text=HOSTILE[(i + j) % len(HOSTILE)]) for j, cell in enumerate(line.cells))
        )
        for i, line in enumerate(grid.lines * 12)
    ]
    return replace(verdicts, grids=(replace(grid, lines=tuple(lines)),))


def test_latex_compiles(tmp_path: Path) -> None:
    result = small_result(tmp_path)
    source, study = result.sources["source-0"], result.study
    verdicts = verdict_table(result.verdicts, "Verdicts: 100 % & more")
    compiled(
        _document(
            verdicts,
            _named(verdicts),
            score_table(study, source, ALPHAS, "rq1", "Scores_1"),
            graph_table(result.graphs, "Graphs"),
            property_table(parse_all("MRR, Hits@10"), "Properties"),
            consistency_table(source.worlds, "Consistency"),
        ),
        tmp_path,
    )


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_format_names_the_models(ending: str, tmp_path: Path) -> None:
    text = score_table(small_study(tmp_path), SOURCE, ALPHAS, "rq1", "Scores").text(ending)
    assert all(latex_text(model) in text for model in ("plain", "sharp", "even", "large"))


@pytest.mark.parametrize(("name", "varying"), [("rq1", "alpha"), ("rq2", "beta")])
def test_the_papers_tables_are_reproduced(name: str, varying: str, data: Path, tmp_path: Path) -> None:
    """Every printed score and every place of WN18RR and UMLS."""
    graphs = ("wn18rr", "umls")
    text = "graphs = ['wn18rr', 'umls']\n" + "".join(f"[models.{model}]\n" for model in MODELS)
    study = small_study(tmp_path, text)
    ranks = data / "published_ranks"
    lineups = {
        graph: line_up(
            {model: ranks / graph / f"{model}.parquet" for model in MODELS},
            graph=kp.load_graph(data / "graphs" / graph),
        )
        for graph in graphs
    }
    values = {"alpha": study.alphas, "beta": study.betas}[varying]
    metrics = [PROBE(**({"alpha": 1.0, "beta": 0.0} | {varying: value})) for value in values]
    (grid,) = score_table(study, SourceRanks("published", lineups), metrics, name, "Scores").grids
    with (ranks / "paper_tables.csv").open() as file:
        printed = {
            (row["graph"], row["model"], float(row["alpha"]), float(row["beta"])): row for row in csv.DictReader(file)
        }
    cells = {line.cells[0].text: line.cells[1:] for line in grid.lines}
    for column, (graph, metric) in enumerate((graph, metric) for graph in graphs for metric in metrics):
        point = metric.parameters["alpha"], metric.parameters["beta"]
        own = {model: float(printed[graph, model, *point]["score"]) for model in MODELS}
        assert {model: float(cells[model][column].text) for model in MODELS} == own
        order = sorted(MODELS, key=lambda model: -own[model])
        assert {model: cells[model][column].place for model in MODELS} == {
            model: place for place, model in enumerate(order, 1)
        }


MODELS = ("RotatE", "ComplEx", "HousE", "TuckER", "pLogicNet", "RNNLogic")
