import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
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
    assert caught.value.problems == ["no training triples: no train.txt, train.tsv or train.csv (or .gz)"]


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


def _labels(graph: KnowledgeGraph, split: str, *, negative: bool = False) -> list[tuple[str, ...]]:
    head, relation, tail = (graph.negatives(split) if negative else graph.triples(split)).T
    return list(zip(graph.entity_label(head), graph.relation_label(relation), graph.entity_label(tail), strict=True))


ABC = [("a", "r", "b"), ("b", "x,y", "c d"), ('say "hi"', "r", "a")]
SPACED = [("a", "r", "b"), ("b", "s", "c")]


def _csv(rows: Sequence[tuple[str, ...]], delimiter: str = ",", header: Sequence[str] = ()) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows([header, *rows] if header else rows)
    return out.getvalue()


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_csv_with_quotes(tmp_path: Path, delimiter: str) -> None:
    _write(tmp_path, train__csv=_csv(ABC, delimiter) if delimiter != "\t" else "a\tr\tb\n")
    assert _labels(load_graph(tmp_path), "train") == (ABC if delimiter != "\t" else ABC[:1])


@pytest.mark.parametrize("quotes", [False, True])
def test_csv_of_pandas(tmp_path: Path, quotes: bool) -> None:
    rows = ABC if quotes else SPACED
    pd.DataFrame(rows, columns=["subject", "predicate", "object"]).to_csv(tmp_path / "train.csv")
    pd.DataFrame(rows[:1], columns=["source", "edge", "target"]).to_csv(tmp_path / "test.csv.gz", index=False)
    with pytest.warns(UserWarning, match="is a header") as said:
        graph = load_graph(tmp_path)
    assert [str(warning.message) for warning in said] == [
        "train.csv, line 1 is a header, not a triple: columns head, relation, tail; not read: one without a name",
        "test.csv.gz, line 1 is a header, not a triple: columns head, relation, tail",
    ]
    assert _labels(graph, "train") == rows
    assert _labels(graph, "test") == rows[:1]


@pytest.mark.parametrize("gap", [" ", "   "])
def test_fields_between_spaces(tmp_path: Path, gap: str) -> None:
    _write(tmp_path, train__txt="".join(gap.join(row) + "\n" for row in SPACED), dev__txt="a r c\n")
    graph = load_graph(tmp_path)
    assert _labels(graph, "train") == SPACED
    assert _labels(graph, "valid") == [("a", "r", "c")]


def test_a_tab_among_spaces_is_no_label(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 2: 1 field, expected head relation tail"):
        load_graph(_write(tmp_path, train__txt="a r b\nb s c\t\n"))


HEADERS = {
    "tabs": ("\n\nhead\trelation\ttail\na\tr\tb\n", 3, "head, relation, tail"),
    "spaces": ("head relation tail\na r b\n", 1, "head, relation, tail"),
    "letters": ("#Subject\tPredicate\tObject\r\na\tr\tb\r\n", 1, "head, relation, tail"),
    "order": ("source\ttarget\ttype\na\tb\tr\n", 1, "head, tail, relation"),
    "more": ("head\tweight\trelation\ttail\na\t\tr\tb\n", 1, "head, relation, tail; not read: weight"),
    "label": ("head\trelation\ttail\tlabel\na\tr\tb\t1\n", 1, "head, relation, tail, label"),
}


@pytest.mark.parametrize(("content", "line", "columns"), HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize("ending", ["txt", "txt.gz"])
def test_a_header_is_skipped_and_said(tmp_path: Path, content: str, line: int, columns: str, ending: str) -> None:
    raw = content.encode()
    (tmp_path / f"train.{ending}").write_bytes(gzip.compress(raw) if ending == "txt.gz" else raw)
    with pytest.warns(UserWarning, match="is a header") as said:
        graph = load_graph(tmp_path)
    message = f"train.{ending}, line {line} is a header, not a triple: columns {columns}"
    assert [str(warning.message) for warning in said] == [message]
    assert _labels(graph, "train") == [("a", "r", "b")]
    assert graph.num_entities == 2


@pytest.mark.parametrize("content", ["h\tr\tt\nx\tr\ty\n", "h\tr\tt\nh\ts\ty\n", "h\tr\tt\ny\ts\th\n"])
def test_a_first_line_whose_words_occur_below_is_a_triple(tmp_path: Path, content: str) -> None:
    with pytest.warns(UserWarning, match=r"train.txt, line 1 looks like a header, .* read as a triple"):
        graph = load_graph(_write(tmp_path, train__txt=content))
    assert len(graph.triples("train")) == 2


def test_words_of_a_dictionary_are_no_header(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    _write(tmp_path, train__txt="h\tr\tt\n", entities__dict="0\th\n1\tt\n")
    assert len(load_graph(tmp_path).triples("train")) == 1
    assert not recwarn.list
    _write(tmp_path, train__txt="head\tr\ttail\nh\tr\tt\n")
    with pytest.warns(UserWarning, match="is a header"):
        assert len(load_graph(tmp_path).triples("train")) == 1


@pytest.mark.parametrize("first", ["head\trelation\tBob\n", "head\ttail\tAda\n", "s\tt\to\n"])
def test_other_first_lines_are_triples(tmp_path: Path, first: str, recwarn: pytest.WarningsRecorder) -> None:
    assert len(load_graph(_write(tmp_path, train__txt=f"{first}a\tq\tb\n")).triples("train")) == 2
    assert not recwarn.list


def test_bad_lines_below_a_header_keep_their_numbers(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="is a header"), pytest.raises(DataError) as caught:
        load_graph(_write(tmp_path, train__csv="head,relation,tail\na,r,b\na,r\n"))
    assert caught.value.problems == ["train.csv, line 3: 2 fields, expected head,relation,tail: 'a,r'"]


def test_labelled_negatives_are_kept_apart(tmp_path: Path) -> None:
    """As in WN11 and FB13: the triples of valid and test have a fourth column."""
    _write(
        tmp_path,
        train__txt="a\tr\tb\nb\ts\tc\n",
        dev__txt="a\tr\tc\t1\na\ts\tc\t-1\n",
        test__txt="b r a 1\nonly r a 0\nc r a -1\nc s a 1\n",
        test_negatives__txt="a\tr\ta\n",
    )
    graph = load_graph(tmp_path)
    assert _labels(graph, "valid") == [("a", "r", "c")]
    assert _labels(graph, "valid", negative=True) == [("a", "s", "c")]
    assert _labels(graph, "test") == [("b", "r", "a"), ("c", "s", "a")]
    assert _labels(graph, "test", negative=True) == [("only", "r", "a"), ("c", "r", "a"), ("a", "r", "a")]
    assert not len(graph.negatives("train"))


def test_a_fourth_column_of_something_else(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load_graph(_write(tmp_path, train__tsv="a\tr\tb\t0.93\na\tr\tc\t2014-01-01\n"))
    assert caught.value.problems == [
        "train.tsv, line 1: '0.93' is no known label (1 or -1): 'a\\tr\\tb\\t0.93'",
        "train.tsv, line 2: '2014-01-01' is no known label (1 or -1): 'a\\tr\\tc\\t2014-01-01'",
    ]
    assert "times and weights are not read" in caught.value.remedy


DICTIONARIES = {
    "id first": {"entities__dict": "0\tb\n1\ta\n2\tc c\n", "relations__dict": "0\tr\n"},
    "label first": {"entity2id__txt": "b\t0\na\t1\nc c\t2\n", "relation2id__txt": "r\t0\n"},
    "counted": {"entity2id__txt": "3\nb\t0\na\t1\nc c\t2\n", "relation2id__txt": "1\nr\t0\n"},
    "lists": {"entities__txt": "b\na\nc c\n", "relations__txt": "r\n"},
    "label first, other name": {"entities__dict": "b\t0\na\t1\nc c\t2\n", "relations__txt": "r\t0\n"},
}


@pytest.mark.parametrize("files", DICTIONARIES.values(), ids=DICTIONARIES)
def test_dictionaries_of_other_programs(tmp_path: Path, files: dict[str, str]) -> None:
    graph = load_graph(_write(tmp_path, train__txt="a\tr\tb\n", **files))
    assert graph.entity_label(range(3)) == ["b", "a", "c c"]
    assert graph.triples("train").tolist() == [[1, 0, 0]]


def test_the_dictionaries_show_the_order_of_columns(tmp_path: Path) -> None:
    files = {"entity2id__txt": "a\t0\nb\t1\n", "relation2id__txt": "r\t0\ns\t1\n"}
    with pytest.warns(UserWarning, match="train.txt: the columns are head, tail, relation"):
        graph = load_graph(_write(tmp_path, train__txt="a\tb\tr\nb\ta\ts\n", **files))
    assert graph.triples("train").tolist() == [[0, 0, 1], [1, 1, 0]]


def test_what_is_wrong_with_dictionaries(tmp_path: Path) -> None:
    _write(tmp_path, train__txt="a\tr\tb\n", entity2id__txt="a\t0\nb\t2\n", relations__txt="r\ns\nr\n")
    with pytest.raises(DataError) as caught:
        load_graph(tmp_path)
    assert caught.value.problems == [
        "entity2id.txt: ids must run from 0 to 1 without gaps; missing: 1",
        "relations.txt: 1 labels are repeated, such as 'r'",
    ]


def test_a_file_of_names_is_no_dictionary(tmp_path: Path) -> None:
    graph = load_graph(_write(tmp_path, train__txt="a\tr\tb\n", entities__txt="a\tAda Lovelace\nb\tBob\n"))
    assert graph.entity_label([0, 1]) == ["a", "b"]


def test_two_files_of_validation_triples(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"several files for one split: valid.txt, dev.txt"):
        load_graph(_write(tmp_path, train__txt="a\tr\tb\n", dev__txt="a\tr\tb\n", valid__txt="a\tr\tb\n"))
