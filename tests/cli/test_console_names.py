"""``--names``: names of entities and relations in what the commands print and write."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import kgprobe as kp
from kgprobe.comparison import line_up
from kgprobe.report.figures.case_figures import relation_profiles
from kgprobe.report.page.payload import About, payload, unpack


@pytest.fixture
def names(tmp_path: Path) -> Path:
    """Names of three of the four entities and of both relations of the tiny graph."""
    path = tmp_path / "names.tsv"
    path.write_text("id\tname\ne0\tAda Lovelace\ne1\tbank\ne2\tbank\nlikes\tis fond of\nknows\thas met\nx\tother\n")
    return path


def test_groups_by_relation_have_names_beside_ids_and_labels(
    kgprobe, ranks_file: Path, graph_dir: Path, names: Path
) -> None:
    how = [ranks_file, "--graph", graph_dir, "--by", "relation", "-m", "MRR"]
    done = kgprobe("eval", *how, "--names", names, "-f", "json")
    assert [(row["relation"], row["relation_label"], row["relation_name"]) for row in json.loads(done.out)] == [
        (0, "likes", "is fond of"),
        (1, "knows", "has met"),
    ]
    assert done.err == f"{names}: names of 3 of 4 entities and 2 of 2 relations; 1 line names nothing in the graph\n"
    table = kgprobe("eval", *how, "--names", names).out
    assert "is fond of" in table
    assert "likes" not in table
    assert "relation_name" not in kgprobe("eval", *how, "-f", "json").out


def test_a_comparison_by_relation_shows_names(kgprobe, ranks_file: Path, graph_dir: Path, names: Path) -> None:
    how = [ranks_file, "-g", graph_dir, "--by", "relation", "-m", "MRR", "--names", names, "--replicates", 100]
    table = kgprobe("compare", *how).out
    assert "is fond of" in table
    assert "likes" not in table
    rows = json.loads(kgprobe("compare", *how, "-f", "json").out)
    assert {(row["relation"], row["relation_label"], row["relation_name"]) for row in rows} == {
        (0, "likes", "is fond of"),
        (1, "knows", "has met"),
    }


def test_the_page_shows_names_and_keeps_labels(
    kgprobe, tmp_path: Path, ranks_file: Path, graph_dir: Path, names: Path
) -> None:
    page = tmp_path / "page.html"
    done = kgprobe("report", ranks_file, "-g", graph_dir, "--names", names, "-o", page, "--replicates", 100)
    assert done.code == 0, done.err
    graph = kp.load_graph(graph_dir, names=names)
    header, _ = unpack(payload(line_up({"mine": kp.read_ranks(ranks_file)}), About(graph=graph)).packed)
    assert header["entities"] == ["Ada Lovelace", "bank (e1)", "bank (e2)", "e3"]
    assert header["relations"] == ["is fond of", "has met"]
    assert header["labels"] == {"entities": ["e0", "e1", "e2", "e3"], "relations": ["likes", "knows"]}


def test_case_studies_show_names(kgprobe, tmp_path: Path, queries: Callable[..., dict], graph_dir: Path, names) -> None:
    files = []
    for model, rank in (("one", [1.0, 2.0, 3.0, 1.5]), ("two", [3.0, 1.0, 1.0, 2.0])):
        files.append(tmp_path / f"{model}.parquet")
        kp.Ranks.from_columns(**queries(rank=rank, ties=[0] * 4)).write(files[-1])
    drawn = tmp_path / "cases.svg"
    done = kgprobe("figure", "case-studies", *files, "-g", graph_dir, "--names", names, "-o", drawn)
    assert done.code == 0, done.err
    study_of = kp.load_graph(graph_dir, names=names)
    assert [profile.label for profile in relation_profiles(study_of, [0, 1])] == ["Ada Lovelace", "bank (e1)"]


@pytest.mark.parametrize(
    "command",
    [
        ["eval"],
        ["compare", "-o", "t.md"],
        ["report", "-o", "p.html"],
        ["check"],
        ["figure", "transformers", "-o", "f.pdf"],
    ],
)
def test_names_need_a_graph_and_bad_names_are_an_error(
    kgprobe, ranks_file: Path, graph_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    bad = tmp_path / "bad.tsv"
    bad.write_text("e0\tAda\ne1\n")
    name, *rest = command
    call = command if name == "figure" else [name, ranks_file, *rest]
    done = kgprobe(*call, "--names", bad)
    assert (done.code, "--names needs the graph" in done.err) == (2, True)
    done = kgprobe(*call, "--names", bad, "-g", graph_dir)
    assert done.code == 1
    assert f"{bad}: not a file of names" in done.err
    assert "bad.tsv, line 2: 1 field, expected at least 2: 'e1'" in done.err


def test_a_malformed_file_beside_the_triples_is_a_note(kgprobe, ranks_file: Path, graph_dir: Path) -> None:
    (graph_dir / "entities.json").write_text("{")
    done = kgprobe("eval", ranks_file, "-g", graph_dir, "-m", "MRR")
    assert done.code == 0
    assert "Warning: " in done.err
    assert "entities.json: not a file of names" in done.err


@pytest.mark.parametrize("directory", [False, True])
def test_no_output_replaces_a_file_of_names(
    kgprobe, ranks_file: Path, graph_dir: Path, names: Path, tmp_path: Path, directory: bool
) -> None:
    before = names.read_bytes()
    page = names.rename(tmp_path / "names.csv")
    source = tmp_path if directory else page
    done = kgprobe("compare", ranks_file, "-g", graph_dir, "--names", source, "-o", page, "-m", "MRR")
    assert done.code == 2
    assert page.read_bytes() == before
