"""Texts for people that stand for one id each, and the ids that texts stand for."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.graph.names import Names, as_labels, displayed

TEXTS = st.lists(
    st.one_of(st.none(), st.sampled_from(["a", "b", "c (1)", "0", "1", "x (a)", "é"])), min_size=4, max_size=4
)


def test_a_name_is_shown_alone_where_it_stands_for_one_id() -> None:
    labels, names = as_labels(["Q1", "Q2", "Q3", "Q4"]), as_labels(["bank", "bank", "river", None])
    assert displayed(labels, names, 4).to_pylist() == ["bank (Q1)", "bank (Q2)", "river", "Q4"]


def test_a_name_that_is_its_own_label_is_shown_once() -> None:
    assert displayed(as_labels(["Ada", "Q2"]), as_labels(["Ada", "Ada"]), 2).to_pylist() == ["Ada", "Ada (Q2)"]


def test_a_name_that_is_the_label_of_another_is_followed_by_the_own_label() -> None:
    assert displayed(as_labels(["a", "b"]), as_labels(["b", None]), 2).to_pylist() == ["b (a)", "b"]


def test_without_labels_ids_tell_names_apart() -> None:
    assert displayed(None, as_labels(["bank", "bank", None]), 3).to_pylist() == ["bank (0)", "bank (1)", "2"]


def test_labels_come_before_names_when_a_text_is_looked_up() -> None:
    index = Names.build("entity", 3, as_labels(["a", "b", "c"]), as_labels(["b", "c", "river"]))
    assert index.ids(pa.array(["a", "b", "c", "river", "b (a)", "lake", None])).tolist() == [0, 1, 2, 2, 0, -1, -1]


def test_a_shared_name_lists_the_labels() -> None:
    names = as_labels(["bank"] * 7 + ["river"])
    index = Names.build("entity", 8, as_labels([f"Q{i}" for i in range(8)]), names)
    assert index.problem("bank") == "'bank' is the name of more than one entity: Q0, Q1, Q2, Q3, Q4, ..."
    assert index.problem("river") is index.problem("bank (Q3)") is None
    assert index.problem("lake") == "'lake' is no known entity"
    assert index.is_shared("bank")
    assert not index.is_shared("lake")


@given(labels=TEXTS, names=TEXTS)
def test_ids_and_problems_agree_with_a_plain_search(labels: list[str | None], names: list[str | None]) -> None:
    index = Names.build("entity", 4, as_labels(labels), as_labels(names))
    own = [str(i) if label is None else label for i, label in enumerate(labels)]
    shown = displayed(as_labels(labels), as_labels(names), 4).to_pylist()
    for text in ["a", "b", "c (1)", "0", "1", "2", "x (a)", "é", "nothing", *shown]:
        for column in (own, names, shown):
            found = [i for i, each in enumerate(column) if each == text]
            if found:
                break
        expected = found[0] if len(found) == 1 else -1
        assert index.ids(pa.array([text])).tolist() == [expected]
        assert (index.problem(text) is None) == (expected >= 0)


@given(names=TEXTS)
def test_texts_for_people_are_unique_where_labels_are(names: list[str | None]) -> None:
    shown = displayed(as_labels(["Q1", "a", "Q3", "0"]), as_labels(names), 4).to_pylist()
    assert len(set(shown)) == 4
    assert all(name is None or text.startswith(name) for text, name in zip(shown, names, strict=True))
