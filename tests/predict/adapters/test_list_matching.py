"""Answers of language models, matched to entities."""

import difflib
import random
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kgprobe as kp
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.names import Names
from kgprobe.predict.adapters.list_matching import How, Ids, LineError, ListOptions, folded
from kgprobe.ranks import UnmatchedAnswer


def test_numbers_are_ids_and_texts_are_names() -> None:
    ids = Ids(Names.build("entity", 4, pa.array(["3", "Ada", None, "x"])))
    assert ids.of([3, "3", "Ada", "2", 0]) == [3, 0, 1, 2, 0]


def test_without_labels_a_text_is_an_id() -> None:
    assert Ids(Names.build("entity", 12, None)).of(["11", 11, "0"]) == [11, 11, 0]


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        ([4], "4 is outside the entity ids 0..3"),
        ([-1], "-1 is outside the entity ids 0..3"),
        (["Adda"], "'Adda' is no known entity (nearest: 'Ada')"),
        (["Zzzz"], "'Zzzz' is no known entity"),
        (["Eve"], "'Eve' is the name of more than one entity"),
        (
            [9, "Ada", 8, 7, 6],
            ", ".join(f"{name} is outside the entity ids 0..3" for name in (9, 8, 7)) + " and 1 more",
        ),
    ],
)
def test_what_is_unknown_is_named(names: list[str | int], problem: str) -> None:
    ids = Ids(Names.build("entity", 4, pa.array(["Ada", "Bob", "Eve", "Eve"])))
    with pytest.raises(LineError) as caught:
        ids.of(names)
    assert str(caught.value) == problem


def test_nearest_names_are_not_looked_for_without_end() -> None:
    ids = Ids(Names.build("entity", 2, pa.array(["Ada", "Bob"])))
    said = []
    for _ in range(30):
        with pytest.raises(LineError) as caught:
            ids.of(["Adda"])
        said.append(str(caught.value))
    assert "nearest" in said[0]
    assert "nearest" not in said[-1]


CITIES = ["S\u00e3o Paulo", "Paris", "New York", "Stra\u00dfe", "Springfield", "Springfield", "1. FC K\u00f6ln", None]


@pytest.fixture
def cities() -> Ids:
    labels = [f"Q{number}" for number in range(len(CITIES))]
    return Ids(Names.build("entity", len(CITIES), pa.array(labels)), pa.array(CITIES))


@pytest.mark.parametrize(
    ("answer", "id_", "how"),
    [
        ("Q0", 0, How.label),
        (7, 7, How.id),
        (8, -1, How.unknown),
        ("Q7", 7, How.label),
        ("Paris", 1, How.name),
        ("q1", 1, How.folded),
        ("PARIS ", 1, How.folded),
        ("Sa\u0303o  paulo", 0, How.folded),
        ("new_york", 2, How.folded),
        ("\uff30aris", 1, How.folded),
        ("STRASSE", 3, How.folded),
        ("1. Paris", 1, How.unmarked),
        ("- New York.", 2, How.unmarked),
        ("\u201cS\u00e3o Paulo\u201d", 0, How.unmarked),
        ("**Paris**", 1, How.unmarked),
        ("1. FC K\u00f6ln", 6, How.name),
        ("2. 1. fc k\u00f6ln", 6, How.unmarked),
        ("Springfield", -1, How.ambiguous),
        ("springfield", -1, How.ambiguous),
        ("Pariss", -1, How.unknown),
        ("", -1, How.unknown),
        (" _ ", -1, How.unknown),
        ("None", -1, How.unknown),
    ],
)
def test_the_first_way_that_knows_an_answer_matches_it(cities: Ids, answer: str | int, id_: int, how: How) -> None:
    assert cities.find(answer) == (id_, how)
    assert cities.find(answer) == (id_, how)


def test_a_label_comes_before_the_name_of_another_entity() -> None:
    ids = Ids(Names.build("entity", 2, pa.array(["Rome", "Q2"])), pa.array(["Roma", "Rome"]))
    assert ids.find("Rome") == (0, How.label)
    assert ids.find("rome") == (-1, How.ambiguous)


@given(st.text(max_size=12))
def test_folding_knows_no_difference_of_form(text: str) -> None:
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert folded(unicodedata.normalize(form, text)) == folded(text)
    assert folded(folded(text)) == folded(text)
    assert folded(f" {text}_ ") == folded(text)


WORDS = st.text(alphabet="abcde ", min_size=1, max_size=9).map(folded).filter(bool)


@given(st.lists(WORDS, min_size=1, max_size=20, unique=True), WORDS, st.floats(0.3, 1.0))
def test_the_nearest_name_is_that_of_difflib(names: list[str], answer: str, cutoff: float) -> None:
    ids = Ids(Names.build("entity", len(names), pa.array(names)), nearest=cutoff)
    ratios = [difflib.SequenceMatcher(None, name, answer, autojunk=False).ratio() for name in names]
    best = max(ratios)
    found = ids.find(answer)
    if answer in names:
        assert found == (names.index(answer), How.label)
    elif best < cutoff:
        assert found == (-1, How.unknown)
    elif ratios.count(best) > 1:
        assert found == (-1, How.ambiguous)
    else:
        assert found == (ratios.index(best), How.nearest)


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"unlisted": "worst"}, "`unlisted` cannot be 'worst'"),
        ({"unknown": "guess"}, "error, drop, keep-as-wrong"),
        ({"duplicates": "last"}, "error, first"),
        ({"nearest": 0.0}, "`nearest` is 0.0"),
        ({"nearest": 1.5}, "`nearest` is 1.5"),
        ({"nearest": float("nan")}, "`nearest` is nan"),
    ],
)
def test_other_options_are_refused(given_: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        ListOptions.of(**given_)  # type: ignore[arg-type]
    assert said in str(caught.value)


RECORDS = [
    {"subject": "Q0", "predicate": "knows", "answers": ["1. Rome", "Atlantis", "paris", "Paris", "Oslo"]},
    {"head": "Q1", "relation": "knows", "predictions": ["Atlantis", "Springfield", "Osloo"]},
]


@pytest.fixture
def graph() -> KnowledgeGraph:
    names = ["Ada", "Bob", "Paris", "Rome", "Springfield", "Springfield", "Oslo"]
    graph = KnowledgeGraph.from_triples(
        test=[[0, 0, 2], [1, 0, 6]], entity_labels=[f"Q{i}" for i in range(7)], relation_labels=["knows"]
    )
    return replace(graph, entity_names=pa.array(names))


def test_lists_of_a_language_model_are_refused_with_every_problem_and_the_options_named(graph: KnowledgeGraph) -> None:
    with pytest.raises(DataError) as caught:
        kp.rank(RECORDS, graph, sides="tail")
    said = str(caught.value)
    assert "'Atlantis' is no known entity" in said
    assert "'Springfield' is the name of more than one entity" in said
    assert "`unknown='drop'`" in said
    assert "`unknown='keep-as-wrong'`" in said
    with pytest.raises(DataError, match="'Paris' is predicted twice") as caught:
        kp.rank(RECORDS, graph, sides="tail", unknown="drop")
    assert "`duplicates='first'`" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "ranks"),
    [
        ({"unknown": "drop"}, [2.0, 1.0]),
        ({"unknown": "keep-as-wrong"}, [3.0, 4.0]),
        ({"unknown": "keep-as-wrong", "nearest": 0.85}, [3.0, 3.0]),
        ({"unknown": "drop", "nearest": 0.85}, [2.0, 1.0]),
    ],
)
def test_what_becomes_of_unknown_answers(graph: KnowledgeGraph, options: dict[str, object], ranks: list[float]) -> None:
    found = kp.rank(RECORDS, graph, sides="tail", duplicates="first", **options)  # type: ignore[arg-type]
    assert found.rank.tolist() == ranks
    info = found.info.lists
    assert info is not None
    assert (info.answers, info.by_name, info.by_folding, info.without_marks) == (8, 2, 1, 1)
    assert (info.ambiguous, info.repeated, info.by_nearest) == (1, 1, 1 if "nearest" in options else 0)
    assert info.not_found == 2 + ("nearest" not in options)
    assert info.frequent[0] == UnmatchedAnswer("Atlantis", 2)
    assert "1 ambiguous" in str(info)


def test_odd_answers_are_unknown_and_can_be_written(graph: KnowledgeGraph, tmp_path: Path) -> None:
    odd = ["\ud800", "\x00", 10**5000, -1, "", "x" * 100_000, "\u202e", "Paris"]
    records = [{"head": head, "relation": 0, "predictions": odd} for head in (0, 1)]
    found = kp.rank(records, graph, sides="tail", unknown="keep-as-wrong", nearest=0.9)
    assert found.rank.tolist()[0] == 7.0  # seven answers come before it, but there are only six other candidates
    found.write(tmp_path / "ranks.parquet")
    read = kp.read_ranks(tmp_path / "ranks.parquet").info.lists
    assert read == found.info.lists
    assert str(read).encode()
    assert len(str(read)) < 800


def test_how_answers_were_matched_is_in_the_file(graph: KnowledgeGraph, tmp_path: Path) -> None:
    found = kp.rank(RECORDS, graph, sides="tail", duplicates="first", unknown="drop")
    found.write(tmp_path / "ranks.parquet")
    assert kp.read_ranks(tmp_path / "ranks.parquet").info.lists == found.info.lists


def _as_a_language_model_writes(rng: random.Random, place: int, name: str) -> str:
    changed = rng.choice([str, str.upper, str.lower, str.title, lambda text: text.replace(" ", "_")])(name)
    form = unicodedata.normalize(rng.choice(["NFC", "NFD"]), changed)
    return rng.choice(["{1}", "{0}. {1}", "- {1}", ' "{1}".', "{1} "]).format(place, form)


def test_a_list_in_the_words_of_wordnet(data: Path) -> None:
    """Ranks of rewritten names are those of the labels, as long as the names are unambiguous."""
    graph, texts = kp.load_graph(data / "graphs" / "wn18rr"), data / "names" / "wn18rr" / "wn-entity2text-new.txt"
    if not texts.exists():
        pytest.skip("KGPROBE_DATA has no names of wn18rr")
    lines = texts.read_text(encoding="utf-8").splitlines()
    text = dict(line.split("\t", 1) for line in lines)
    labels = graph.entity_labels.to_pylist()  # type: ignore[union-attr]
    names = [text[label].split(" -- ")[0] if label in text else None for label in labels]
    named = replace(graph, entity_names=pa.array(names))
    shared = {name for name, forms in _grouped(names).items() if len(forms) > 1}
    shared |= {folded(label) for label in labels}
    clear = [i for i, name in enumerate(names) if name and folded(name) not in shared]
    rng, known = random.Random(0), set(clear)
    triples = graph.triples("test")[:60]
    by_label, by_name = [], []
    for h, r in np.unique(triples[:, :2], axis=0).tolist():
        targets = set(triples[triples[:, 0] == h][:, 2].tolist()) & known
        answers = list(dict.fromkeys([*rng.sample(clear, 8), *sorted(targets)]))
        query = {"head": labels[h], "relation": r}
        by_label.append(query | {"predictions": [labels[e] for e in answers]})
        words = [_as_a_language_model_writes(rng, n, names[e]) for n, e in enumerate(answers, 1)]  # type: ignore[arg-type]
        by_name.append(query | {"predictions": [words[0], "no such synset", *words[1:]]})
    plain = kp.rank(by_label, graph, sides="tail", triples=triples)
    written = kp.rank(by_name, named, sides="tail", triples=triples, unknown="drop")
    assert written.to_arrow().equals(plain.to_arrow())
    assert written.info.lists is not None
    assert written.info.lists.not_found == len(by_name)
    assert written.info.lists.by_folding > 50
    assert written.info.lists.without_marks > 50


def _grouped(names: list[str | None]) -> dict[str, set[int]]:
    groups: dict[str, set[int]] = {}
    for i, name in enumerate(names):
        if name:
            groups.setdefault(folded(name), set()).add(i)
    return groups
