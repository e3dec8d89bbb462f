import pyarrow as pa
import pytest

from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.readers.names import KnownNames, Names


def test_labels_and_ids_where_there_is_none() -> None:
    graph = KnowledgeGraph.from_triples(entity_labels=["Ada", None, "2"], num_relations=2)
    texts = pa.array(["2", "1", "0", "Ada", "ada", "01"])
    assert Names.entities(graph).ids(texts).tolist() == [2, 1, -1, 0, -1, -1]
    assert Names.entities(graph, labels=False).ids(texts).tolist() == [2, 1, 0, -1, -1, -1]
    assert Names.relations(graph).ids(pa.array(["0", "1", "2"])).tolist() == [0, 1, -1]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
def test_a_name_that_several_have_is_nobodys(kind: pa.DataType) -> None:
    names = Names.build("entity", 4, pa.array(["Ada", "Bob", "Ada", None], kind))
    assert names.ids(pa.array(["Ada", "Bob", "3"])).tolist() == [-1, 1, 3]
    assert names.problem("Ada") == "'Ada' is the name of more than one entity"
    assert names.problem("Bob") is None
    assert names.problem("Eve") == "'Eve' is no known entity"


def test_an_id_that_is_the_label_of_another_is_nobodys() -> None:
    names = Names.build("relation", 2, pa.array(["1", None]))
    assert names.ids(pa.array(["1"])).tolist() == [-1]
    assert names.problem("1") == "'1' is the name of more than one relation"


def test_everything_wrong_with_a_line_is_said() -> None:
    rule = KnownNames(
        {"entity": Names.build("entity", 1, None), "side": Names("side", pa.array(["left"]))}, ("side", "entity")
    )
    assert rule.judge(1, ["left", "0"]) is None
    assert rule.judge(2, ["up", "7"]) == "'7' is no known entity, 'up' is no known side"
