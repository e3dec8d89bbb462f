"""Names matched with a graph: by labels, by ids, entities or relations; what is said of those that do not fit."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import kgprobe as kp
from kgprobe.errors import DataError, UsageError


@pytest.fixture
def graph() -> kp.KnowledgeGraph:
    """Four entities and two relations with labels of Wikidata."""
    return kp.KnowledgeGraph.from_triples(
        train=[[0, 0, 1], [2, 1, 3]],
        entity_labels=["Q1", "Q2", "Q3", "Q4"],
        relation_labels=["P1", "P2"],
        name="wiki",
    )


def test_names_are_matched_by_label_and_the_rest_is_counted(graph: kp.KnowledgeGraph, tmp_path: Path) -> None:
    file = tmp_path / "names.tsv"
    file.write_text("Q3\tCy\nQ1\tAda\nQ99\tnobody\nQ98\tnobody\nQ3\tother name\n")
    said: list[str] = []
    named = graph.with_names(file, note=said.append)
    assert named.entity_names.to_pylist() == ["Ada", None, "Cy", None]
    assert named.relation_names is None
    assert said == [f"{file}: names of 2 of 4 entities; 2 lines name nothing in the graph"]
    assert named.content_hash == graph.content_hash
    assert named.entity_name(range(4)) == ["Ada", "Q2", "Cy", "Q4"]
    assert named.entity_label(range(4)) == ["Q1", "Q2", "Q3", "Q4"]
    assert graph.entity_names is None


def test_one_file_may_name_entities_and_relations(graph: kp.KnowledgeGraph) -> None:
    said: list[str] = []
    named = graph.with_names({"Q1": "Ada", "P2": "knows", "Q2": "Bob", "x": "y"}, note=said.append)
    assert said == [
        "the mapping of names: names of 2 of 4 entities and 1 of 2 relations; 1 line names nothing in the graph"
    ]
    assert (named.entity_name([0, 1]), named.relation_name([0, 1])) == (["Ada", "Bob"], ["P1", "knows"])


def test_what_is_named_is_found_by_matching(graph: kp.KnowledgeGraph, tmp_path: Path) -> None:
    file = tmp_path / "x.tsv"
    file.write_text("knows\tP1\nlikes\tP2\n")
    assert graph.with_names(file).relation_name([0, 1]) == ["knows", "likes"]


def test_ids_of_the_graph_are_matched_where_labels_are_not(graph: kp.KnowledgeGraph, tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("id,name\n0,Ada\n3,Dan\n1,Bob\n")
    assert graph.with_names(file).entity_name(range(4)) == ["Ada", "Bob", "Q3", "Dan"]
    file.write_text("id,name\n0,knows\n1,likes\n")
    assert graph.with_names(file).relation_name([0, 1]) == ["knows", "likes"]
    assert graph.with_names(entities=file).entity_name([0, 1]) == ["knows", "likes"]


def test_the_file_name_decides_where_ids_of_both_kinds_match(tmp_path: Path) -> None:
    graph = kp.KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 1, 1]])
    for file, expected in (("relation_strings.del", (["0", "1"], ["x", "y"])), ("a.tsv", (["x", "y"], ["0", "1"]))):
        (tmp_path / file).write_text("0\tx\n1\ty\n")
        named = graph.with_names(tmp_path / file)
        assert (named.entity_name([0, 1]), named.relation_name([0, 1])) == expected


def test_names_that_are_numbers_are_not_taken_for_ids(data: Path) -> None:
    graph = kp.load_graph("codex-s")
    with pytest.raises(
        DataError, match="no name for graph codex-s"
    ):  # some films of Freebase are called "300" and the like
        graph.with_names(data / "names" / "fb15k-237" / "FB15k_mid2name.txt")


def test_labels_that_are_numbers_come_before_ids() -> None:
    graph = kp.KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=["1", "0"], relation_labels=["r"])
    assert graph.with_names({"0": "zero", "1": "one"}).entity_name([0, 1]) == ["one", "zero"]


def test_lists_arrays_and_integer_keys_name_ids_in_order(graph: kp.KnowledgeGraph) -> None:
    for names in (["A", None, "C", "D"], pa.array(["A", None, "C", "D"]), {0: "A", np.int64(2): "C", 3: "D"}):
        assert graph.with_names(entities=names).entity_name(range(4)) == ["A", "Q2", "C", "D"]
    assert graph.with_names(relations=["x", "y"]).relation_name([1]) == ["y"]


def test_later_names_replace_earlier_ones(graph: kp.KnowledgeGraph) -> None:
    named = graph.with_names({"Q1": "Ada", "Q2": "Bob"}, {"Q1": "Eve"})
    assert named.with_names({"Q2": "Dan"}).entity_name([0, 1]) == ["Eve", "Dan"]


def test_two_entities_may_share_a_name(graph: kp.KnowledgeGraph) -> None:
    named = graph.with_names({"Q1": "bank", "Q2": "bank"})
    assert named.entity_names.to_pylist()[:2] == ["bank", "bank"]
    assert named.entity_name([0, 1]) == ["bank (Q1)", "bank (Q2)"]


def test_names_that_fit_nothing_show_both_sides(graph: kp.KnowledgeGraph, tmp_path: Path) -> None:
    file = tmp_path / "types.json"
    file.write_text('{"Q28640": {"label": "profession"}}')
    with pytest.raises(DataError) as error:
        graph.with_names(file)
    assert error.value.title == f"{file}: no name for graph wiki"
    assert error.value.problems == [
        "it names 'Q28640'",
        "entities of the graph are 'Q1', 'Q2', 'Q3'",
        "relations of the graph are 'P1', 'P2'",
        "by its file name, it names types, not entities",
    ]


def test_a_file_of_ids_alone_changes_nothing(graph: kp.KnowledgeGraph, tmp_path: Path) -> None:
    (tmp_path / "all_relation_info.txt").write_text("id\nP1\nP2\n")
    named = graph.with_names(tmp_path / "all_relation_info.txt")
    assert (named.entity_names, named.relation_names) == (None, None)


def test_a_directory_gives_the_names_of_its_recognised_files(graph: kp.KnowledgeGraph, tmp_path: Path) -> None:
    (tmp_path / "all_entity_info.txt").write_text("id\tname\ttype\nQ1\tAda\tauthor\nQ2\tBob\tauthor\n")
    (tmp_path / "relations.json").write_text('{"P1": {"label": "knows"}}')
    (tmp_path / "names.csv").write_text("id,name\nQ1,Ada Lovelace\n")
    (tmp_path / "types.json").write_text("[")
    named = graph.with_names(tmp_path)
    assert (named.entity_name([0, 1]), named.relation_name([0])) == (["Ada Lovelace", "Bob"], ["knows"])
    with pytest.raises(DataError, match="no file of names"):
        graph.with_names(tmp_path / "..", entities=tmp_path / "..")


@pytest.mark.parametrize("names", [{"Q1": 5}, {("Q1",): "x"}, {True: "x"}, {-1: "x"}, {"": "x"}])
def test_mappings_of_other_things_are_refused(graph: kp.KnowledgeGraph, names: dict) -> None:
    with pytest.raises(DataError, match="mapping of names is invalid"):
        graph.with_names(names)


@pytest.mark.parametrize("names", [5, ["a.tsv", "b.tsv"], None])
def test_sources_of_other_types_are_refused(graph: kp.KnowledgeGraph, names: object) -> None:
    with pytest.raises(UsageError, match="`names` has a"):
        graph.with_names(names)  # type: ignore[arg-type]


def test_no_names_are_the_same_graph(graph: kp.KnowledgeGraph) -> None:
    assert graph.with_names() is graph
    empty = kp.KnowledgeGraph.from_triples()
    with pytest.raises(DataError, match="no name for graph"):
        empty.with_names({"a": "b"})


def test_real_names_cover_their_graphs(data: Path) -> None:
    for name, covered in (("fb15k-237", 14_541), ("wn18rr", 40_943)):
        named = kp.load_graph(data / "graphs" / name, names=data / "names" / name)
        assert len(named.entity_names) - named.entity_names.null_count == covered
        texts = named.entity_name(range(named.num_entities))
        assert len(set(texts)) == covered
