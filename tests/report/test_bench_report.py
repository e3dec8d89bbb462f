import pytest

from benches import made_pairs
from kgprobe.openworld import Bench
from kgprobe.openworld.benches import BenchSettings, bench
from kgprobe.report.bench_report import bench_grid, bench_notes, bench_rows
from kgprobe.report.grid import as_text

METRICS = ("MRR", "pMRR(p=0.25)", "PROBE(alpha=0)")

NAMES = ("one\nline", "other")


@pytest.fixture(scope="module")
def benches() -> dict[str, Bench]:
    settings = BenchSettings(replicates=20, late=0.9)
    return {name: bench(made_pairs(2, 2, queries=9), METRICS, world=name, settings=settings) for name in NAMES}


def test_a_table_has_a_block_for_each_world(benches: dict[str, Bench]) -> None:
    grid = bench_grid(benches)
    assert [line.cells[0].text for line in grid.lines] == ["one line"] * 3 + ["other"] * 3
    assert [line.opens for line in grid.lines] == [True, False, False] * 2
    taus = [as_text(row["tau"]) for one in benches.values() for row in one.to_rows()]
    assert [line.cells[2].text for line in grid.lines] == taus
    assert {line.cells[7].text for line in grid.lines} == {""}  # no point is late, so there is no residual
    assert grid.columns[7].headings == ("late points", "residual")


def test_a_single_world_needs_no_name(benches: dict[str, Bench]) -> None:
    one = {"other": benches["other"]}
    grid = bench_grid(one)
    assert grid.columns[0].headings == ("", "metric")
    said = bench_notes(one)
    assert list(grid.notes[: len(said)]) == said
    meanings = [note.partition(":")[0].lower() for note in grid.notes[len(said) :]]
    assert meanings == list(dict.fromkeys(column.headings[0] for column in grid.columns[1:]))
    assert grid.notes[0] == "4 points of 2 models, 36 known answers."
    assert said[1:] == one["other"].verdict + one["other"].notes


def test_notes_say_of_which_world_they_are(benches: dict[str, Bench]) -> None:
    first, *others = bench_notes(benches)
    assert first.startswith("Worlds are evaluated separately")
    assert {note.partition(":")[0] for note in others} == {"one line", "other"}


def test_rows_for_programs_have_a_kind_and_a_world(benches: dict[str, Bench]) -> None:
    rows = bench_rows(benches)
    assert {row["kind"] for row in rows} == {"consistency", "difference", "point"}
    assert {row["world"] for row in rows} == set(NAMES)
    points = [row for row in rows if row["kind"] == "point" and row["world"] == "other" and row["metric"] == "MRR"]
    assert [row["closed"] for row in points] == benches["other"].points.closed[0].tolist()
    assert [(row["model"], row["checkpoint"]) for row in points] == [
        (f"model-{i}", f"epoch-{j}") for i in (0, 1) for j in (0, 5)
    ]
