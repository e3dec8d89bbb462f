"""Labels and file names that hold escape codes reach no terminal; JSON keeps them, escaped."""

import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp

HOSTILE = "\x1b[31m\x1b]0;title\x07 \r\n\x85\x9b\u2028\u202e\u2066\x7f=1+1"
FEW = ["--replicates", "100"]
COMMANDS = {
    "eval": ["eval", "RANKS", "--graph", "GRAPH", "--by", "relation,kind", "-m", "MRR"],
    "eval of a missing file": ["eval", "ABSENT"],
    "eval by a missing column": ["eval", "RANKS", "--by", HOSTILE],
    "eval of an unknown metric": ["eval", "RANKS", "-m", HOSTILE],
    "surface": ["surface", "RANKS", "--beta", "0"],
    "compare": ["compare", "RANKS", "--by", "kind", "-m", "MRR", "-m", "AMRI", *FEW],
    "compare pairs": ["compare", "RANKS", "--pairs", *FEW],
    "decide": ["decide", "RANKS", "--alpha", "1", "--beta", "0", *FEW],
    "decide on a map": ["decide", "RANKS", "--beta", "0", *FEW],
    "check": ["check", "RANKS", "--graph", "GRAPH"],
    "estimate": ["openworld", "estimate", "RANKS", "--missing", "0.1", "--entities", "4", "--draws", "4"],
    "graph stats": ["graph", "stats", "GRAPH"],
    "unknown graph": ["graph", "stats", "ABSENT"],
}
NO_FORMAT = {
    "compare": ["compare", "RANKS", "-o", "OUT.md", *FEW],
    "figure": ["figure", "rank-histogram", "RANKS", "-o", "OUT.pdf"],
    "rank": ["rank", "random", "--graph", "GRAPH", "-o", "OUT.parquet"],
    "import": ["import", "csv", "ABSENT", "--graph", "GRAPH", "-o", "OUT.parquet"],
}


@pytest.fixture
def run(kgprobe, tmp_path: Path, queries):
    """Run a command on rank files and a graph with hostile names, in a folder with a hostile name."""
    folder = tmp_path / HOSTILE.replace("/", "")
    graph, other = folder / f"graph{HOSTILE}", folder / f"b{HOSTILE}.parquet"
    triples = np.array([[0, 0, 1], [1, 0, 2], [2, 1, 0], [0, 1, 3]])
    labels = {"entity_labels": [f"e{i}{HOSTILE}" for i in range(4)], "relation_labels": [HOSTILE, f"r{HOSTILE}"]}
    splits = {"train": triples, "test": np.array([[0, 0, 2], [1, 1, 3]])}
    kp.KnowledgeGraph.from_triples(**splits, **labels).write(graph)
    for path, model, rank in ((folder / "a.parquet", HOSTILE, [1.0, 2.0, 3.0, 1.5]), (other, f"b{HOSTILE}", [1.0] * 4)):
        columns = queries(rank=rank, ties=[0, 0, 0, 1 if rank[3] == 1.5 else 0])
        ranks = kp.Ranks.from_columns(**columns, labels={"kind": [HOSTILE, "b", "b", HOSTILE]})
        ranks.with_info(model=model).write(path)
    places = {"RANKS": [folder / "a.parquet", other], "GRAPH": [graph], "ABSENT": [folder / f"absent{HOSTILE}"]}

    def words(word: str) -> list[object]:
        return places.get(word) or [folder / word if word.startswith("OUT") else word]

    return lambda arguments: kgprobe(*(found for word in arguments for found in words(word)))


def unsafe(text: str) -> set[str]:
    marks = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    return {c for c in text if c != "\n" and (c in marks or unicodedata.category(c) in ("Cc", "Zl", "Zp", "Cs"))}


@pytest.mark.parametrize("style", ["table", "csv", "latex", "markdown"])
@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_that_a_terminal_obeys_is_printed(run, command: str, style: str) -> None:
    done = run([*COMMANDS[command], "-f", style])
    assert "Traceback" not in done.err
    assert done.out or done.err
    assert unsafe(done.out) == set()
    assert unsafe(done.err) == set()


@pytest.mark.parametrize("command", NO_FORMAT)
def test_nothing_that_a_terminal_obeys_is_in_a_note(run, command: str) -> None:
    done = run(NO_FORMAT[command])
    assert done.err
    assert unsafe(done.err) == set()


@pytest.mark.parametrize("command", ["eval", "surface", "compare", "decide", "decide on a map"])
def test_json_keeps_labels_and_is_safe_to_print(run, command: str) -> None:
    done = run([*COMMANDS[command], "-f", "json"])
    assert done.code == 0
    assert unsafe(done.out) == set()
    values = {value for row in json.loads(done.out) for value in row.values() if isinstance(value, str)}
    assert {HOSTILE, f"b{HOSTILE}"} <= values


def test_csv_keeps_a_text_that_looks_like_a_formula(kgprobe, queries, tmp_path: Path) -> None:
    # A program reads the name of the model as it is in the rank file; the documentation warns of spreadsheets.
    kp.Ranks.from_columns(**queries()).with_info(model="=1+1").write(tmp_path / "a.parquet")
    assert ",=1+1,MRR,0.625," in kgprobe("eval", tmp_path / "a.parquet", "-m", "MRR", "-f", "csv").out
