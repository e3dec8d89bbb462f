"""Queries and names as people write them."""

import pytest

from kgprobe.errors import UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.rules.written_queries import Vocabulary, WrittenQuery

GRAPH = KnowledgeGraph.from_triples(
    train=[[0, 0, 1], [2, 1, 3]],
    entity_labels=["Ada", "Byron, Lord", "?", None, "7", "Twin", "Twin", "a, b", "b"],
    relation_labels=["child of", "likes, a"],
    name="names",
)

WORDS = Vocabulary(GRAPH)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ada, child of, ?", WrittenQuery("tail", 0, 0)),
        ("?, child of, Ada", WrittenQuery("head", 0, 0)),
        ("  Ada ,child of,?", WrittenQuery("tail", 0, 0)),
        ("Byron, Lord, child of, ?", WrittenQuery("tail", 1, 0)),
        ("?, child of, Byron, Lord", WrittenQuery("head", 1, 0)),
        ("?, likes, a, Byron, Lord", WrittenQuery("head", 1, 1)),
        ("?\tlikes, a\tByron, Lord", WrittenQuery("head", 1, 1)),
        ("3, 0, ?", WrittenQuery("tail", 3, 0)),
        ("0, 1, ?", WrittenQuery("tail", 0, 1)),
        ("7, 1, ?", WrittenQuery("tail", 4, 1)),
        ("6, 1, ?", WrittenQuery("tail", 6, 1)),
    ],
)
def test_a_query_is_read(text: str, expected: WrittenQuery) -> None:
    assert WORDS.question(text) == expected


@pytest.mark.parametrize(
    "text", ["", "Ada", "Ada, child of", "Ada, child of, Byron", "?, child of, ?", "Ada\tchild of"]
)
def test_what_is_no_query_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid query") as error:
        WORDS.question(text)
    assert "head, relation, ?" in error.value.remedy


def test_what_is_not_known_is_told_with_what_is_nearest() -> None:
    with pytest.raises(UsageError, match="for graph names") as error:
        WORDS.question("Adda, child off, ?")
    assert error.value.problems == [
        "'Adda' is no known entity; nearest: Ada",
        "'child off' is no known relation; nearest: child of",
    ]


def test_a_name_that_several_have_asks_for_an_id() -> None:
    with pytest.raises(UsageError) as error:
        WORDS.entities(["Twin", "nobody at all", "9", "-1", "5"])
    assert [problem.split(";")[0] for problem in error.value.problems] == [
        "'Twin' is the name of more than one entity",
        "'nobody at all' is no known entity",
        "'9' is no known entity",
        "'-1' is no known entity",
    ]
    assert "id" in error.value.remedy


def test_a_query_that_can_be_read_in_two_ways_is_refused() -> None:
    with pytest.raises(UsageError, match="can be read in 2 ways") as error:
        Vocabulary(
            KnowledgeGraph.from_triples(
                train=[[0, 0, 1], [1, 1, 0]], entity_labels=["b", "a, b"], relation_labels=["r", "r, a"]
            )
        ).question("?, r, a, b")
    assert "tabs" in error.value.remedy


def test_many_names_are_not_all_listed() -> None:
    many = KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=[f"entity number {i}" for i in range(100)])
    with pytest.raises(UsageError) as error:
        Vocabulary(many).entities(["qqq"])
    assert error.value.problems == ["'qqq' is no known entity"]


@pytest.mark.parametrize("entity", ["9" * 5000, "\udcff", "x" * 100_000], ids=["5,000 digits", "not UTF-8", "long"])
def test_names_that_nothing_can_have(entity: str) -> None:
    with pytest.raises(UsageError, match="invalid query") as error:
        WORDS.question(f"{entity}, child of, ?")
    assert error.value.problems[0].startswith(repr(entity[:40]))
    assert len(error.value.title) < 200
    with pytest.raises(UsageError, match="unknown names"):
        WORDS.entities([entity])


def test_very_many_commas_are_refused_at_once() -> None:
    with pytest.raises(UsageError, match="invalid query"):
        WORDS.question("a," * 100_000 + "?")
