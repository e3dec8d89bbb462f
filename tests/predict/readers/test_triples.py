import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.readers import text
from kgprobe.predict.readers.triples import read_triples


@pytest.fixture
def graph() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(
        entity_labels=["Ada", "New York", "NA"], relation_labels=["lives in", "knows"], name="people"
    )


LINES = "Ada\tlives in\tNew York\nNA\tknows\tAda\n"
IDS = [[0, 0, 1], [2, 1, 0]]


def test_labelled_lines(graph: KnowledgeGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "read_lines", lambda *_, **__: pytest.fail("read line by line"))
    (tmp_path / "more.txt").write_text(LINES, encoding="utf-8")
    (tmp_path / "more.tsv.gz").write_bytes(gzip.compress(LINES.encode()))
    for name in ("more.txt", "more.tsv.gz"):
        triples = read_triples(tmp_path / name, graph, [])
        assert triples is not None
        assert triples.tolist() == IDS


def test_ids_in_parquet(graph: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "more.parquet"
    table = {"tail": [1, 0], "relation": [0, 1], "head": [0, 2], "weight": [0.5, 1.0]}
    pq.write_table(pa.table(table), path)
    triples = read_triples(path, graph, [])
    assert triples is not None
    assert triples.tolist() == IDS


@pytest.mark.parametrize("gap", [" ", "\t"], ids=["space", "tab"])
def test_ids_as_in_openke(graph: KnowledgeGraph, tmp_path: Path, gap: str) -> None:
    lines = f"2\n0{gap}1{gap}0\n2{gap}0{gap}1\n".encode()
    (tmp_path / "test2id.txt").write_bytes(lines)
    (tmp_path / "test2id.txt.gz").write_bytes(gzip.compress(lines))
    for name in ("test2id.txt", "test2id.txt.gz"):
        triples = read_triples(tmp_path / name, graph, [])
        assert triples is not None
        assert triples.tolist() == IDS


def test_a_graph_without_labels_is_read_by_ids(tmp_path: Path) -> None:
    path = tmp_path / "more.tsv"
    path.write_text("11\t0\t10\n", encoding="utf-8")
    triples = read_triples(path, KnowledgeGraph.from_triples(num_entities=12, num_relations=1), [])
    assert triples is not None
    assert triples.tolist() == [[11, 0, 10]]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "more.tsv",
            "Ada\tknows\tAda\nAda knows Ada\nBob\tlikes\tNA\n0\t1\tNA\n",
            [
                "more.tsv, line 2: 1 field, expected head<TAB>relation<TAB>tail: 'Ada knows Ada'",
                "more.tsv, line 3: 'Bob' is no known entity, 'likes' is no known relation: 'Bob\\tlikes\\tNA'",
                "more.tsv, line 4: '0' is no known entity, '1' is no known relation: '0\\t1\\tNA'",
            ],
        ),
        (
            "more2id.txt",
            "2\n0 1 2\n3 -1 0\n0 0 0\n",
            [
                "more2id.txt, line 2: '2' is no known relation: '0 1 2'",
                "more2id.txt, line 3: '3' is no known entity, '-1' is no known entity: '3 -1 0'",
                "more2id.txt: the first line says that 2 lines follow, but 3 do",
            ],
        ),
        ("empty.tsv", "", ["empty.tsv: empty"]),
        ("more.parquet", "", ["more.parquet: empty file"]),
    ],
    ids=["labels", "ids", "nothing", "no Parquet"],
)
def test_every_bad_line_is_named(
    graph: KnowledgeGraph, tmp_path: Path, name: str, content: str, expected: list[str]
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    problems: list[str] = []
    assert read_triples(tmp_path / name, graph, problems) is None
    assert problems == expected


def test_bad_ids_in_parquet(graph: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "more.parquet"
    pq.write_table(pa.table({"head": [0, 3], "relation": [2, 0], "tail": [-1, 0]}), path)
    problems: list[str] = []
    assert read_triples(path, graph, problems) is None
    assert problems == [
        "more.parquet head: 1 ids outside 0..2 in rows 1 (counted from 0), for example 3",
        "more.parquet relation: 1 ids outside 0..1 in rows 0 (counted from 0), for example 2",
        "more.parquet tail: 1 ids outside 0..2 in rows 0 (counted from 0), for example -1",
    ]


@pytest.mark.parametrize("name", ["more.tsv", "more.parquet", "more2id.txt"])
def test_a_file_that_is_not_there(graph: KnowledgeGraph, tmp_path: Path, name: str) -> None:
    problems: list[str] = []
    assert read_triples(tmp_path / name, graph, problems) is None
    assert len(problems) == 1
    assert name in problems[0]
