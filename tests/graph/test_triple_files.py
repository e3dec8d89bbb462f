import gzip
from pathlib import Path

import pytest

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, load_graph, text_files


def _write(directory: Path, **files: str) -> Path:
    for name, content in files.items():
        (directory / name.replace("__", ".")).write_text(content, encoding="utf-8")
    return directory


def _export(graph: KnowledgeGraph, directory: Path, ending: str = ".txt", *, dictionaries: bool) -> None:
    for split in graph.splits:
        h, r, t = graph.triples(split).T
        rows = zip(graph.entity_label(h), graph.relation_label(r), graph.entity_label(t), strict=True)
        content = "".join("\t".join(row) + "\n" for row in rows).encode()
        (directory / (split + ending)).write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    if dictionaries:
        for name, labels in (("entities", graph.entity_labels), ("relations", graph.relation_labels)):
            (directory / f"{name}.dict").write_text(
                "".join(f"{i}\t{x}\n" for i, x in enumerate(labels.to_pylist())), encoding="utf-8"
            )


def test_ids_follow_sorted_labels_of_all_splits(tmp_path: Path) -> None:
    graph = load_graph(_write(tmp_path, train__txt="NA\tr\tb\nb\tq\tnull\n", test__txt='a\tr\té"\n'))
    assert graph.entity_label(range(5)) == ["NA", "a", "b", "null", 'é"']
    assert graph.relation_label(range(2)) == ["q", "r"]
    assert graph.triples("train").tolist() == [[0, 1, 2], [2, 0, 3]]
    assert graph.triples("test").tolist() == [[1, 1, 4]]
    assert "valid" not in graph.splits


def test_dictionaries_give_the_ids(tmp_path: Path) -> None:
    graph = load_graph(
        _write(
            tmp_path,
            train__tsv="a\tr\tb\n",
            entities__dict="0\tb\n2\tunused\n1\ta\n",
            relations__dict="0\tr\n",
        )
    )
    assert graph.triples("train").tolist() == [[1, 0, 0]]
    assert graph.num_entities == 3


def test_one_dictionary_is_enough(tmp_path: Path) -> None:
    graph = load_graph(_write(tmp_path, train__txt="a\tr\tb\n", entities__dict="0\tb\n1\ta\n"))
    assert graph.triples("train").tolist() == [[1, 0, 0]]
    assert graph.relation_label([0]) == ["r"]


@pytest.mark.parametrize(
    ("name", "ending", "dictionaries"),
    [("umls", ".txt", True), ("umls", ".tsv.gz", True), ("nations", ".tsv", False)],
)
def test_real_graphs_keep_their_hash(data: Path, tmp_path: Path, name: str, ending: str, dictionaries: bool) -> None:
    graph = load_graph(data / "graphs" / name)
    _export(graph, tmp_path, ending, dictionaries=dictionaries)
    again = load_graph(tmp_path)
    assert again.content_hash == graph.content_hash
    assert again.entity_labels.to_pylist() == graph.entity_labels.to_pylist()


def test_everything_wrong_in_all_files_is_reported(tmp_path: Path) -> None:
    _write(
        tmp_path,
        train__txt="a\tr\tb\na r b\nx\tr\ty\n",
        valid__txt="",
        test__txt="a\tq\tb\n\na\tr\n",
        test__tsv="a\tr\tb\n",
        entities__dict="0\ta\n1\tb\n",
        relations__dict="0\tr\n",
    )
    with pytest.raises(DataError) as caught:
        load_graph(tmp_path)
    assert caught.value.problems == [
        "train.txt, line 2: 1 field, expected head<TAB>relation<TAB>tail: 'a r b'",
        "train.txt, line 3: 'x' is no known label of entities.dict, 'y' is no known label of entities.dict: "
        "'x\\tr\\ty'",
        "valid.txt: empty",
        "several files for one split: test.txt, test.tsv",
        "test.txt, line 1: 'q' is no known label of relations.dict: 'a\\tq\\tb'",
        "test.txt, line 3: 2 fields, expected head<TAB>relation<TAB>tail: 'a\\tr'",
    ]


def test_training_triples_are_needed(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load_graph(_write(tmp_path, test__txt="a\tr\tb\n"))
    assert caught.value.problems == ["no train.txt or train.tsv or train.txt.gz or train.tsv.gz"]


def _write_openke(directory: Path, **files: str) -> Path:
    for name, content in files.items():
        (directory / f"{name}2id.txt").write_text(content)
    return directory


@pytest.mark.parametrize("gap", [" ", "\t", "  "], ids=["space", "tab", "two spaces"])
def test_the_relation_comes_last(tmp_path: Path, gap: str) -> None:
    triples = [f"0{gap}1{gap}2", f"1{gap}0{gap}0"]
    graph = load_graph(
        _write_openke(
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
    monkeypatch.setattr(text_files, "read_lines", lambda *_, **__: pytest.fail("read line by line"))
    _write_openke(tmp_path, train=f"1\n0{gap}0{gap}0\n", entity="1\na\t0\n", relation="1\nr\t0\n")
    assert load_graph(tmp_path).triples().tolist() == [[0, 0, 0]]


def test_real_graphs_keep_their_hash_as_openke(data: Path, tmp_path: Path) -> None:
    graph = load_graph(data / "graphs" / "umls")
    for split, triples in graph.splits.items():
        rows = "".join(f"{h} {t} {r}\n" for h, r, t in triples.tolist())
        (tmp_path / f"{split}2id.txt").write_text(f"{len(triples)}\n{rows}")
    for name, labels in (("entity", graph.entity_labels), ("relation", graph.relation_labels)):
        rows = "".join(f"{label}\t{i}\n" for i, label in enumerate(labels.to_pylist()))
        (tmp_path / f"{name}2id.txt").write_text(f"{len(labels)}\n{rows}")
    assert load_graph(tmp_path).content_hash == graph.content_hash


def test_everything_wrong_in_all_openke_files_is_reported(tmp_path: Path) -> None:
    _write_openke(
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
        load_graph(_write_openke(tmp_path, test="1\n0 0 0\n"))
    assert caught.value.problems == ["no train2id.txt", "no entity2id.txt", "no relation2id.txt"]


def test_an_empty_split_may_say_so(tmp_path: Path) -> None:
    _write_openke(tmp_path, train="1\n0 0 0\n", valid="0\n", entity="1\na\t0\n", relation="1\nr\t0\n")
    assert load_graph(tmp_path).triples("valid").shape == (0, 3)
