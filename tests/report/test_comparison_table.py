import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.metrics import Metric, parse_all
from kgprobe.report.comparison_table import Style, comparison_grid, headings
from kgprobe.report.grid import Cell, Grid, one_line
from reporting import NAMES, comparison
from support import metrics

# ruff: noqa: RUF001 (headings are Greek)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("MRR, Hits@1, Hits@10, MR", [("", "MRR"), ("", "Hits@1"), ("", "Hits@10"), ("", "MR ↓")]),
        (
            "PROBE(1,0), PROBE(0.5,0), PROBE(1,0.4), PROBE(0.5,0.4)",
            [("PROBE(β=0)", "α=1"), ("PROBE(β=0)", "α=0.5"), ("PROBE(β=0.4)", "α=1"), ("PROBE(β=0.4)", "α=0.5")],
        ),
        ("PROBE(1,0), PROBE(1,0.8)", [("PROBE(α=1)", "β=0"), ("PROBE(α=1)", "β=0.8")]),
        ("PROBE(1,0), MRR, PROBE(0,0)", [("", "PROBE(α=1, β=0)"), ("", "MRR"), ("", "PROBE(α=0, β=0)")]),
        (
            "PROBE(alpha=1,beta=0), PROBE(alpha=1,beta_e=0.5)",
            [("", "PROBE(α=1, β=0)"), ("", "PROBE(α=1, β_e=0.5, β_r=0)")],
        ),
        ("pMRR(p=2), pMRR(p=0.5)", [("pMRR", "p=2"), ("pMRR", "p=0.5")]),
        ("PROBE(alpha=-inf), PROBE(alpha=inf)", [("PROBE(β=0)", "α=−inf"), ("PROBE(β=0)", "α=inf")]),
    ],
)
def test_what_metrics_share_stands_above_them(names: str, expected: list[tuple[str, str]]) -> None:
    assert headings(parse_all(names)) == expected


@given(st.lists(metrics(), unique=True, max_size=6))
def test_every_column_has_a_heading_of_its_own(wanted: list[Metric]) -> None:
    found = headings(wanted)
    assert len(found) == len(wanted)
    assert len(set(found)) == len(wanted)
    assert all(below for _, below in found)


VALUES = {
    "MRR": {"one": 0.5, "other": 0.75, "third": 0.5, "last": 0.25},
    "MR": {"one": 3.0, "other": 4.0, "third": 20.0, "last": 1.0},
}

P = {("MRR", "other", "last"): 0.01, ("MR", "last", "third"): 0.02, ("MR", "last", "other"): 0.03}


def columns(grid: Grid) -> dict[str, list[Cell]]:
    return {
        " ".join(filter(None, column.headings)): [line.cells[i] for line in grid.lines]
        for i, column in enumerate(grid.columns)
    }


def test_places_and_marks_respect_the_direction_of_the_metric() -> None:
    found = columns(comparison_grid(comparison(VALUES, P)))
    assert [cell.text for cell in found["model"]] == ["one", "other", "third", "last"]
    assert [(c.text, c.place, c.marks) for c in found["MRR"]] == [
        ("0.5000", 2, "†"),
        ("0.7500", 1, ""),
        ("0.5000", 2, "†"),
        ("0.2500", 4, ""),
    ]
    assert [(c.text, c.place, c.marks) for c in found["MR ↓"]] == [
        ("3.00", 2, "†"),
        ("4.00", 3, ""),
        ("20.00", 4, ""),
        ("1.00", 1, ""),
    ]


def test_letters_name_the_models_that_are_beaten() -> None:
    grid = comparison_grid(comparison(VALUES, P), Style(letters=True))
    assert [[cell.text for cell in line.cells[:2]] for line in grid.lines] == [
        ["a", "one"],
        ["b", "other"],
        ["c", "third"],
        ["d", "last"],
    ]
    found = columns(grid)
    assert [cell.marks for cell in found["MRR"]] == ["†", "d", "†", ""]
    assert [cell.marks for cell in found["MR ↓"]] == ["†", "", "", "bc"]


def test_letters_of_many_models_are_kept_apart() -> None:
    values = {"MRR": {f"m{i}": i / 100 for i in range(30)}}
    p = {("MRR", "m29", f"m{i}"): 0.001 for i in range(29)}
    best = columns(comparison_grid(comparison(values, p), Style(letters=True)))["MRR"][29]
    assert best.marks == ",".join([*"abcdefghijklmnopqrstuvwxyz", "aa", "ab", "ac"])


def test_deviations_and_intervals_have_the_digits_of_their_column() -> None:
    compared = comparison({"MR": {"one": 1234.5, "other": 7.25}}, seeds=3)
    cells = columns(comparison_grid(compared, Style(intervals=True)))["MR ↓"]
    assert (cells[0].text, cells[0].deviation, cells[0].interval) == ("1,234.5", "0.0", "[1,234.5, 1,234.5]")
    assert cells[1].text == "7.2"
    cells = columns(comparison_grid(compared, Style(digits=3)))["MR ↓"]
    assert (cells[1].text, cells[1].deviation, cells[1].interval) == ("7.250", "0.005", "")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "\N{EN DASH}"),
        (math.inf, "∞"),
        (-math.inf, "-∞"),
        (2.5e12, "2.5e+12"),
        (-0.5, "-0.5000"),
        (-1e-9, "0.0000"),
    ],
)
def test_strange_values_have_a_cell_too(value: float, text: str) -> None:
    cells = columns(comparison_grid(comparison({"AMRI": {"one": 0.25, "other": value}})))["AMRI"]
    assert cells[1].text == text
    assert (cells[1].place is None) == math.isnan(value)


def test_an_interval_without_limits_is_not_shown() -> None:
    grid = comparison_grid(comparison({"AMRI": {"one": math.nan}}), Style(intervals=True))
    assert grid.lines[0].cells[1].interval == ""


def test_one_model_has_neither_place_nor_mark() -> None:
    grid = comparison_grid(comparison({"MRR": {"only": 0.5}}))
    assert grid.lines[0].cells[1] == Cell("0.5000")
    assert grid.notes == ("100 queries in 50 clusters by triple; ties: mean.",)


def test_notes_explain_every_mark_and_how_the_numbers_were_found() -> None:
    compared = comparison(VALUES, P, untrusted=["one", "last"], seeds=3, replicates=500, permutations=700, level=0.95)
    notes = comparison_grid(compared, Style(intervals=True, letters=True), ["Something was left out."]).notes
    assert notes == (
        "100 queries in 50 clusters by triple; ties: mean.",
        "Mean over 3 seeds ± standard deviation between them; intervals and tests reflect the sampling of queries, for "
        "these training runs.",
        "↓ lower is better.",
        "† not significantly worse than the best; superscript letters name the models that this one is "
        "significantly better than (p <= 0.05, paired permutation tests, 700 permutations of clusters).",
        "Tests and 95 % intervals of differences are simultaneous for the 6 pairs of models (max-t), for each metric "
        "by itself; choose the metric before you look at the results.",
        "In brackets: 95 % confidence intervals, bootstrap, 500 draws of clusters.",
        "‡ the interval is not reliable: one is doubtful; last is doubtful.",
        "Something was left out.",
    )


def test_equal_models_are_not_called_worse() -> None:
    equal = comparison({"MRR": {"one": 0.5, "copy": 0.5}})
    assert comparison_grid(equal).notes[1].startswith("No model is significantly worse than another (p <=")
    assert "for the only pair of models" in comparison_grid(equal).notes[2]
    apart = comparison({"MRR": {"one": 0.5, "other": 0.25}}, {("MRR", "one", "other"): 0.01})
    assert comparison_grid(apart).notes[1].startswith("All others are significantly worse than the best (p")


def test_notes_on_random_seeds_speak_of_other_tests() -> None:
    fixed = comparison(VALUES, P, seeds=2, cluster="query")
    random = replace(fixed, settings=replace(fixed.settings, seeds="random"))
    assert comparison_grid(random).notes[0] == "100 queries; ties: mean."
    text = " ".join(comparison_grid(random, Style(intervals=True)).notes)
    assert "intervals and tests reflect the sampling of queries and of training runs" in text
    assert "paired t-tests over clusters and seeds" in text
    assert "bootstrap" not in text
    assert "permutation" not in text


def test_where_all_are_worse_beyond_noise_it_says_so() -> None:
    clear = comparison({"MRR": {"one": 0.5, "other": 0.75}}, {("MRR", "one", "other"): 0.001})
    assert comparison_grid(clear).notes[1].startswith("All others are significantly worse than the best (")


def test_many_remarks_are_cut_short() -> None:
    models = [f"m{i}" for i in range(9)]
    doubtful = comparison({"MRR": dict.fromkeys(models, 0.5)}, untrusted=models)
    note = comparison_grid(doubtful).notes[-1]
    assert note.endswith("m0 is doubtful; m1 is doubtful; m2 is doubtful; and 6 more.")


def test_remarks_that_differ_in_numbers_alone_are_one() -> None:
    models = {"a": 131, "b": 1120, "c": 7}
    found = comparison({"MRR": dict.fromkeys(models, 0.5)}, untrusted=list(models))
    estimates = [
        replace(e, interval=replace(e.interval, remark=f"the number {{}} is {models[e.model]:,}, below 200"))
        for e in found.estimates
    ]
    note = comparison_grid(replace(found, estimates=estimates)).notes[-1]
    assert note == "‡ the interval is not reliable: the number {} is 7 to 1,120, below 200."


def test_few_groups_stand_side_by_side() -> None:
    compared = comparison(VALUES, P, groups=[{"side": "head"}, {"side": "tail"}])
    grid = comparison_grid(compared)
    assert [column.headings for column in grid.columns] == [
        ("", "model"),
        ("side head", "MRR"),
        ("side head", "MR ↓"),
        ("side tail", "MRR"),
        ("side tail", "MR ↓"),
    ]
    assert len(grid.lines) == 4
    assert grid.notes[0] == "100 queries in 50 clusters by triple in the largest group; ties: mean."


def test_many_groups_stand_below_each_other_by_their_names() -> None:
    groups = [{"relation": i, "relation_label": f"r{i}", "side": "head"} for i in range(7)]
    grid = comparison_grid(comparison(VALUES, P, groups=groups), Style(letters=True))
    assert [column.headings for column in grid.columns] == [
        ("relation",),
        ("side",),
        ("",),
        ("model",),
        ("MRR",),
        ("MR ↓",),
    ]
    assert len(grid.lines) == 28
    assert [line.opens for line in grid.lines] == [True, False, False, False] * 7
    assert [cell.text for cell in grid.lines[5].cells[:4]] == ["r1", "head", "b", "other"]
    assert grid.lines[5].cells[4].place == 1


@given(st.lists(NAMES, min_size=1, max_size=5, unique=True))
def test_any_names_make_a_table_of_single_lines(names: list[str]) -> None:
    compared = comparison({"MRR": dict.fromkeys(names, 0.5)}, groups=[{name: name} for name in names])
    grid = comparison_grid(compared, None, names)
    texts = [heading for column in grid.columns for heading in column.headings]
    texts += [cell.text for line in grid.lines for cell in line.cells] + list(grid.notes)
    assert all(one_line(text) == text for text in texts)
    assert all(len(line.cells) == len(grid.columns) for line in grid.lines)
