from pathlib import Path

import pytest

from kgprobe.errors import DataError
from kgprobe.graph import load_graph
from kgprobe.graph.readers import text


def _write(directory: Path, **files: str) -> Path:
    for name, content in files.items():
        (directory / f"{name}2id.txt").write_text(content)
    return directory


@pytest.mark.parametrize("gap", [" ", "\t", "  "], ids=["space", "tab", "two spaces"])
def test_the_relation_comes_last(tmp_path: Path, gap: str) -> None:
    triples = [f"0{gap}1{gap}2", f"1{gap}0{gap}0"]
    graph = load_graph(
        _write(
            tmp_path,
            train="2\n" + "\n".join(triples) + "\n",
            test=f"1\r\n1{gap}1{gap}1\r\n",
            entity="2\nNew York\t0\nNA 1\n",
            relation="3\nr\t0\ns\t1\nt\t2\n",
        )
    )
    assert graph.triples("train").tolist() == [[0, 2, 1], [1, 0, 0]]
    assert graph.triples("test").tolist() == [[1, 1, 1]]
    assert graph.entity_label([0, 1]) == ["New York", "NA"]
    assert graph.num_relations == 3


@pytest.mark.parametrize("gap", [" ", "\t"], ids=["space", "tab"])
def test_usual_gaps_are_read_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: str) -> None:
    monkeypatch.setattr(text, "read_lines", lambda *_, **__: pytest.fail("read line by line"))
    _write(tmp_path, train=f"1\n0{gap}0{gap}0\n", entity="1\na\t0\n", relation="1\nr\t0\n")
    assert load_graph(tmp_path).triples().tolist() == [[0, 0, 0]]


def test_real_graphs_keep_their_hash(data: Path, tmp_path: Path) -> None:
    graph = load_graph(data / "graphs" / "umls")
    for split, triples in graph.splits.items():
        rows = "".join(f"{h} {t} {r}\n" for h, r, t in triples.tolist())
        (tmp_path / f"{split}2id.txt").write_text(f"{len(triples)}\n{rows}")
    for name, labels in (("entity", graph.entity_labels), ("relation", graph.relation_labels)):
        rows = "".join(f"{label}\t{i}\n" for i, label in enumerate(labels.to_pylist()))
        (tmp_path / f"{name}2id.txt").write_text(f"{len(labels)}\n{rows}")
    assert load_graph(tmp_path).content_hash == graph.content_hash


def test_everything_wrong_in_all_files_is_reported(tmp_path: Path) -> None:
    _write(
        tmp_path,
        train="3\n0 1 0\n0 2 0\n0 1\n",
        valid="0 1 0\n",
        test="2\n0 1 5\n",
        entity="2\na\t0\nb\t1\n",
        relation="1\nr\tzero\n",
    )
    with pytest.raises(DataError) as caught:
        load_graph(tmp_path)
    assert caught.value.problems == [
        "relation2id.txt, line 2: 'zero' is not an id: 'r\\tzero'",
        "train2id.txt, line 3: tail 2 is outside 0..1: '0 2 0'",
        "train2id.txt, line 4: 2 fields, expected head tail relation (ids): '0 1'",
        "valid2id.txt, line 1: expected the number of lines that follow: '0 1 0'",
        "test2id.txt: the first line says that 2 lines follow, but 1 do",
    ]


def test_all_three_kinds_of_file_are_needed(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load_graph(_write(tmp_path, test="1\n0 0 0\n"))
    assert caught.value.problems == ["no train2id.txt", "no entity2id.txt", "no relation2id.txt"]


def test_an_empty_split_may_say_so(tmp_path: Path) -> None:
    _write(tmp_path, train="1\n0 0 0\n", valid="0\n", entity="1\na\t0\n", relation="1\nr\t0\n")
    assert load_graph(tmp_path).triples("valid").shape == (0, 3)
