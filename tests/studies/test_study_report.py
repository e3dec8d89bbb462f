import base64
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import kgprobe as kp
from browser import made_graph
from kgprobe.audit import audited
from kgprobe.errors import DataError, UsageError
from kgprobe.json_files import write_json
from kgprobe.report.page.payload import unpack
from kgprobe.studies.study_folder import file_digest
from kgprobe.studies.study_report import MANIFEST, Output, Outputs, write_report
from kgprobe.studies.study_work import StudyResult
from kgprobe.studies.verdicts import Answer
from study_results import STUDY, small_result, small_source, small_study, small_tables


@pytest.fixture
def copy(written: Path, tmp_path: Path) -> Path:
    """A copy of the report, which a test may change."""
    return Path(shutil.copytree(written, tmp_path / "report"))


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _states(folder: Path) -> dict[str, tuple[int, int]]:
    states = {path: os.stat(path) for path in folder.rglob("*") if path.is_file()}
    return {str(path.relative_to(folder)): (one.st_ino, one.st_mtime_ns) for path, one in states.items()}


def _rewritten(result: StudyResult, folder: Path) -> set[str]:
    """The files that another call writes."""
    before = _states(folder)
    write_report(result, folder, figure_type="svg")
    return {name for name, state in _states(folder).items() if before.get(name) != state}


def _few(folder: Path, text: str = STUDY) -> StudyResult:
    """A study without claims, sources and graphs, whose report takes little time."""
    study = small_study(folder, text)
    return StudyResult(study, folder, {}, {}, (), {})


def test_a_report_has_all_of_its_parts(written: Path) -> None:
    tables = ["graph-statistics", "properties", "verdicts"]
    tables += [f"source-{i}/{name}" for i in (0, 1) for name in ("rq1", "rq2", "metrics")]
    figures = ["transformers", "weights", "weight-surface", "geometry"]
    figures += ["crossing-lines-made-up", "popularity-density-made-up"]
    names = ["heat-maps", "decision-map-made-up", "rank-histogram-made-up-sharp-plain"]
    names += ["popularity-ranks-made-up-sharp-even", "case-studies-made-up-sharp-even"]
    figures += [f"source-{i}/{name}" for i in (0, 1) for name in names]
    figures += ["source-0/worlds-0.25", "source-0/rank-connections-0.25"]
    tables.append("source-0/consistency")
    wanted = {f"tables/{name}{ending}" for name in tables for ending in (".csv", ".tex", ".md", ".html")}
    wanted |= {f"figures/{name}.svg" for name in figures}
    wanted |= {"index.html", MANIFEST, "pages/source-0/made-up.html", "pages/source-1/made-up.html"}
    assert set(_files(written)) == wanted
    assert not [name for name, content in _files(written).items() if not content]


def test_what_cannot_be_had_is_named_with_its_reason(written: Path) -> None:
    text = (written.parent / "notes.txt").read_text()
    assert "source-0 has no ranks of absent; not written: figures/source-0/decision-map-absent" in text
    assert "the graph absent is not at hand; not written: figures/crossing-lines-absent" in text
    assert "out of memory: 94 GiB are not there" in text
    page = (written / "index.html").read_text(encoding="utf-8")
    assert "figures/source-0/decision-map-absent" in page
    assert "source-0 has no ranks of absent" in page


def test_equal_studies_give_equal_files(written: Path, tmp_path: Path) -> None:
    again = small_result(tmp_path, sources=2)
    write_report(again, tmp_path / "report", figure_type="svg")
    assert _files(tmp_path / "report") == _files(written)


def test_a_second_call_writes_nothing(result: StudyResult, copy: Path) -> None:
    assert _rewritten(result, copy) == set()


def test_only_what_changed_is_written_again(result: StudyResult, copy: Path) -> None:
    other = replace(result.verdicts[0], answer=Answer.contradicted)
    changed = replace(result, verdicts=(other, *result.verdicts[1:]))
    verdicts = {f"tables/verdicts{ending}" for ending in (".csv", ".tex", ".md", ".html")}
    assert _rewritten(changed, copy) == {*verdicts, "index.html", MANIFEST}
    graphs = {"made-up": made_graph()}
    source = small_source("source-1", graphs, 100)
    tables = small_tables(graphs["made-up"], 100)
    tables["even"] = tables["plain"]
    lineups = {"made-up": audited(tables, graph=graphs["made-up"]).lineup}
    ranked = replace(changed, sources={**changed.sources, "source-1": replace(source, lineups=lineups)})
    found = _rewritten(ranked, copy)
    assert found
    assert all("source-1" in name or name in (MANIFEST, "index.html") for name in found)
    assert {"figures/source-1/heat-maps.svg", "tables/source-1/rq2.csv", "pages/source-1/made-up.html"} <= found


def test_damaged_files_are_written_again(result: StudyResult, copy: Path, written: Path) -> None:
    (copy / "tables" / "properties.csv").write_text("damaged")
    (copy / "figures" / "weights.svg").unlink()
    with (copy / "pages" / "source-0" / "made-up.html").open("r+b") as page:
        page.truncate(1000)
    found = _rewritten(result, copy)
    properties = {f"tables/properties{ending}" for ending in (".csv", ".tex", ".md", ".html")}
    assert found == {*properties, "figures/weights.svg", "pages/source-0/made-up.html", MANIFEST}
    assert _files(copy) == _files(written)


@pytest.mark.parametrize("content", ["", "{}", '{"outputs": []}', '{"outputs": {}, "sha256": "0"}'])
def test_a_damaged_manifest_makes_everything_new(content: str, tmp_path: Path) -> None:
    made: list[Path] = []

    def write(folder: Path) -> None:
        made.append(folder)
        _write_note(folder)

    for damaged in (False, True):
        if damaged:
            (tmp_path / MANIFEST).write_text(content)
        outputs = Outputs(tmp_path)
        outputs.write(Output("note", ("note.txt",), {}, write))
        outputs.finish()
    assert len(made) == 2


def test_what_a_report_has_no_more_is_removed_unless_it_was_changed(result: StudyResult, copy: Path) -> None:
    (copy / "figures" / "mine.svg").write_text("mine")
    (copy / "tables" / "source-1" / "rq1.csv").write_text("changed by hand")
    first = {"source-0": result.sources["source-0"]}
    verdicts = tuple(verdict for verdict in result.verdicts if verdict.source == "source-0")
    missing = {key: reason for key, reason in result.missing.items() if key[0] != "source-1"}
    write_report(replace(result, sources=first, verdicts=verdicts, missing=missing), copy, figure_type="svg")
    left = set(_files(copy))
    assert {name for name in left if "source-1" in name} == {"tables/source-1/rq1.csv"}
    assert "figures/mine.svg" in left
    assert not (copy / "pages" / "source-1").exists()
    assert "source-1" not in (copy / "index.html").read_text(encoding="utf-8")


def test_a_manifest_cannot_name_files_elsewhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    report = tmp_path / "report"
    report.mkdir()
    digest = Outputs(report)
    digest.write(Output("note", ("note.txt",), {}, _write_note))
    digest.finish()
    stored = json.loads((report / MANIFEST).read_text())["outputs"]
    write_json(
        report / MANIFEST, {"outputs": {"x": {"key": "", "files": {"../outside.txt": file_digest(outside)}}, **stored}}
    )
    Outputs(report).finish()
    assert outside.read_text() == "mine"
    assert not (report / "note.txt").exists()


def _write_note(folder: Path) -> None:
    (folder / "note.txt").write_text("made")


def test_an_output_that_fails_is_tried_again(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        raise DataError("no numbers")

    outputs = Outputs(tmp_path)
    with pytest.raises(DataError):
        outputs.write(Output("note", ("note.txt",), {}, fail))
    outputs.finish()
    again = Outputs(tmp_path)
    again.write(Output("note", ("note.txt",), {}, _write_note))
    assert (tmp_path / "note.txt").read_text() == "made"


def test_a_figure_that_cannot_be_drawn_is_named(tmp_path: Path) -> None:
    alone = kp.KnowledgeGraph.from_triples(test=[[0, 0, 1]], num_entities=2, num_relations=1)
    result = replace(_few(tmp_path), graphs={"made-up": alone})
    notes = write_report(result, tmp_path / "report", figure_type="svg")
    assert any("no training triples" in note and "figures/crossing-lines-made-up" in note for note in notes)
    assert (tmp_path / "report" / "index.html").exists()
    assert not (tmp_path / "report" / "figures" / "crossing-lines-made-up.svg").exists()


def test_the_chosen_format_is_written_beside_svg(tmp_path: Path) -> None:
    write_report(_few(tmp_path), tmp_path / "report", figure_type="png")
    names = {path.name for path in (tmp_path / "report" / "figures").iterdir()}
    assert {"weights.png", "weights.svg"} <= names
    assert not any(name.endswith(".pdf") for name in names)
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert 'href="figures/weights.png"' in page
    assert 'src="figures/weights.svg"' in page


def test_unknown_formats_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown figure type 'gif'"):
        write_report(_few(tmp_path), tmp_path / "report", figure_type="gif")
    assert not (tmp_path / "report").exists()


def test_other_files_are_not_mixed_with_a_report(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("mine")
    with pytest.raises(UsageError, match="holds other files") as error:
        write_report(_few(tmp_path), tmp_path, figure_type="svg")
    assert error.value.problems == ["index.html, study.toml"]
    assert (tmp_path / "index.html").read_text() == "mine"
    with pytest.raises(UsageError, match="is a file"):
        write_report(_few(tmp_path), tmp_path / "index.html")


def test_a_report_that_was_stopped_is_continued(tmp_path: Path) -> None:
    def stop(share: float) -> None:
        raise KeyboardInterrupt

    report = tmp_path / "report"
    with pytest.raises(KeyboardInterrupt):
        write_report(_few(tmp_path), report, figure_type="svg", progress=stop)
    first = _states(report)
    assert "figures/transformers.svg" in first
    assert not (report / "index.html").exists()
    assert "figures/transformers.svg" not in _rewritten(_few(tmp_path), report)
    assert (report / "index.html").exists()


def test_explorer_pages_have_the_ranks_and_the_audit(written: Path, result: StudyResult) -> None:
    page = (written / "pages" / "source-0" / "made-up.html").read_text(encoding="utf-8")
    start = page.index("H4sI")  # gzip in base64
    packed = page[start : page.index("<", start)]
    header, _ = unpack(base64.b64decode(packed))
    assert header["title"] == "made-up: source-0"
    assert [model["name"] for model in header["models"]] == ["plain", "sharp", "even"]
    assert [bool(model["flag"] and model["flag"]["error"]) for model in header["models"]] == [True, False, False]
    assert header["written"] == ""
    assert header["queries"] == len(result.sources["source-0"].lineups["made-up"])
