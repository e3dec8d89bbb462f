"""A saved model and a graph that number the same names differently, against PyKEEN's own evaluator."""

import gzip
import re

import numpy as np
import pytest
import torch
from pykeen.evaluation import RankBasedEvaluator
from pykeen.models import model_resolver
from pykeen.triples import TriplesFactory

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.predict.adapters.pykeen_folder import save_for_ranking
from kgprobe.predict.adapters.pykeen_names import FOLDER, ModelNames, read_names, scorer_for, write_names
from kgprobe.predict.adapters.pykeen_scorer import scorer_of
from kgprobe.predict.ranking import rank

ENTITIES = [f"e{i:02}" for i in range(23)]

RELATIONS = [f"r{i}" for i in range(5)]

NAMES = ModelNames(ENTITIES, RELATIONS)


def graph_of(entities=ENTITIES, relations=RELATIONS):
    return KnowledgeGraph.from_triples(
        train=[[0, 0, 1]],
        name="toy",
        num_entities=23,
        num_relations=5,
        entity_labels=entities,
        relation_labels=relations,
    )


def problems(model, graph, names=None):
    with pytest.raises(DataError) as caught:
        scorer_for(model, graph, names)
    assert caught.value.remedy
    return caught.value.problems


@pytest.mark.parametrize("inverse", [False, True], ids=["", "inverse"])
def test_numbers_must_agree(make, inverse):
    graph = graph_of()
    assert scorer_for(make("TransE", inverse=inverse), graph)
    found = problems(make("TransE", inverse=inverse, entities=24, relations=10), graph)
    assert found == ["the model has 24 entities, the graph 23", "the model has 10 relations, the graph 5"]


def shuffled(seed):
    rng = np.random.default_rng(seed)
    return rng.permutation(ENTITIES).tolist(), rng.permutation(RELATIONS).tolist()


@pytest.mark.parametrize("side", ["head", "tail"])
@pytest.mark.parametrize("inverse", [False, True], ids=["", "inverse"])
@pytest.mark.parametrize("name", ["TuckER", "TransH"])
def test_ids_go_by_name(name, inverse, side, make):
    model = make(name, inverse=inverse, embedding_dim=4)
    entities, relations = shuffled(1)
    given, relation = np.array([0, 7, 22]), np.array([4, 0, 2])
    own_entity = np.array([ENTITIES.index(label) for label in entities])
    own_relation = np.array([RELATIONS.index(label) for label in relations])
    scorer, plain = scorer_for(model, graph_of(entities, relations), NAMES), scorer_of(model)
    if name == "TuckER":
        assert scorer.similarity == plain.similarity
        wanted = plain.encode_queries(side, own_entity[given], own_relation[relation])
        assert np.array_equal(scorer.encode_queries(side, given, relation), wanted)
        assert np.array_equal(scorer.candidates(side), plain.candidates(side)[own_entity])
    else:
        assert scorer.bytes_per_query == plain.bytes_per_query > 0
        wanted = plain.score(side, own_entity[given], own_relation[relation])[:, own_entity.tolist()]
        assert torch.equal(scorer.score(side, given, relation), wanted)


def test_only_one_kind_in_another_order(make):
    model, (entities, relations) = make("TransE"), shuffled(2)
    given, relation = np.array([3]), np.array([1])
    plain = scorer_of(model)
    own = np.array([ENTITIES.index(label) for label in entities])
    by_entity = scorer_for(model, graph_of(entities), NAMES)
    assert np.array_equal(
        by_entity.encode_queries("tail", given, relation), plain.encode_queries("tail", own[given], relation)
    )
    by_relation = scorer_for(model, graph_of(relations=relations), NAMES)
    assert np.array_equal(by_relation.candidates("tail"), plain.candidates("tail"))


def test_the_same_order_costs_nothing(make):
    model = make("TransE")
    found, plain = scorer_for(model, graph_of(), NAMES).candidates("tail"), scorer_of(model).candidates("tail")
    assert np.shares_memory(found, plain)


def test_a_graph_without_names_is_taken_by_id(make):
    model = make("TransE")
    scorer = scorer_for(model, graph_of(None, None), ModelNames(*shuffled(3)))
    assert np.array_equal(scorer.candidates("tail"), scorer_of(model).candidates("tail"))


def test_all_missing_names_are_listed(make):
    graph = graph_of(["Ada", *ENTITIES[1:22], "Zoe"], ["likes", *RELATIONS[1:]])
    assert problems(make("TransE"), graph, NAMES) == [
        "2 entities that only the graph has: 'Ada', 'Zoe'",
        "2 entities that only the model has: 'e00', 'e22'",
        "1 relations that only the graph has: 'likes'",
        "1 relations that only the model has: 'r0'",
    ]


def test_numbers_and_names_are_named_together(make):
    names = ModelNames([*ENTITIES, "new"], RELATIONS)
    assert problems(make("TransE", entities=24), graph_of(), names) == [
        "the model has 24 entities, the graph 23",
        "1 entities that only the model has: 'new'",
    ]


def test_many_missing_names(make):
    found = problems(make("TransE"), graph_of([f"x{i}" for i in range(23)]), NAMES)
    assert found[0].startswith("23 entities that only the graph has: 'x0', 'x1', ")
    assert found[0].endswith("'x19', and those of the ids 20-22")


def test_names_that_are_shared_or_absent(make):
    found = problems(make("TransE"), graph_of(["e01", None, *ENTITIES[2:22], "e01"]), NAMES)
    assert found == [
        "1 entities that only the graph has: one without a name",
        "2 entities that only the model has: 'e00', 'e22'",
        "1 names that several entities of the graph share: 'e01'",
    ]


ODD = ["", "NA", "a\tb", 'say "hi"', "line\nbreak", "naïve", "\u2028"]


def put(folder, kind, text):
    (folder / FOLDER).mkdir(exist_ok=True)
    with gzip.open(folder / FOLDER / f"{kind}_to_id.tsv.gz", "wt", encoding="utf-8", newline="") as file:
        file.write(text)


def test_what_pykeen_writes_is_read(tmp_path):
    factory = TriplesFactory.from_labeled_triples(
        np.array([[one, "r", other] for one, other in zip(ODD, reversed(ODD), strict=True)]),
        create_inverse_triples=True,
    )
    factory.to_path_binary(tmp_path / FOLDER)
    names = read_names(tmp_path)
    assert dict(zip(names.entities, range(len(ODD)), strict=True)) == factory.entity_to_id
    assert names.relations == ["r"]


def test_what_is_written_is_read(tmp_path):
    names = ModelNames(ODD, ["r"])
    write_names(tmp_path, names)
    assert read_names(tmp_path) == names
    assert sorted(path.name for path in (tmp_path / FOLDER).iterdir()) == [
        "entity_to_id.tsv.gz",
        "relation_to_id.tsv.gz",
    ]


def test_no_names(tmp_path):
    assert read_names(tmp_path) is None
    (tmp_path / FOLDER).mkdir()
    assert read_names(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("label\tid\n", r"line 1: expected the words id and label"),
        ("", r"line 1: expected the words id and label"),
        ("id\tlabel\n0\ta\n0\tb\n", r"line 3: the id is repeated: '0\\tb'"),
        ("id\tlabel\n0\ta\n1\ta\n", r"line 3: the label is repeated: '1\\ta'"),
        ("id\tlabel\n0\ta\nx\tb\n", r"line 3: the id is not an integer: 'x\\tb'"),
        ("id\tlabel\n0\ta\t1\n", r"line 2: 3 fields, expected 2"),
        ("id\tlabel\n0\ta\n2\tb\n", r"entity_to_id.tsv.gz: 2 names, but no id 1"),
    ],
)
def test_bad_lines(tmp_path, text, problem):
    put(tmp_path, "entity", text)
    put(tmp_path, "relation", "id\tlabel\n0\tr\n")
    with pytest.raises(DataError) as caught:
        read_names(tmp_path)
    [said] = caught.value.problems
    assert re.search(problem, said)


def test_all_problems_of_both_files(tmp_path):
    put(tmp_path, "entity", "id\tlabel\n0\ta\n-1\tb\n0\tc\n")
    with pytest.raises(DataError) as caught:
        read_names(tmp_path)
    assert [said.split(":")[0] for said in caught.value.problems] == [
        "entity_to_id.tsv.gz, line 3",
        "entity_to_id.tsv.gz, line 4",
        "relation_to_id.tsv.gz",
    ]


@pytest.mark.parametrize(
    "content", [b"id\tlabel\n", gzip.compress(b"id\tlabel\n" + b"0\ta\n" * 99)[:-20]], ids=["plain", "cut"]
)
def test_files_that_are_no_gzip_or_end_early(tmp_path, content):
    put(tmp_path, "relation", "id\tlabel\n0\tr\n")
    (tmp_path / FOLDER / "entity_to_id.tsv.gz").write_bytes(content)
    with pytest.raises(DataError, match="cannot be used") as caught:
        read_names(tmp_path)
    assert "entity_to_id.tsv.gz: cannot be read" in caught.value.problems[0]


def test_text_that_is_not_utf_8(tmp_path):
    put(tmp_path, "relation", "id\tlabel\n0\tr\n")
    (tmp_path / FOLDER / "entity_to_id.tsv.gz").write_bytes(gzip.compress(b"id\tlabel\n0\t\xff\n"))
    with pytest.raises(DataError) as caught:
        read_names(tmp_path)
    assert "cannot be read" in caught.value.problems[0]


@pytest.mark.parametrize("inverse", [False, True], ids=["", "inverse"])
@pytest.mark.parametrize("kind", ["ComplEx", "TransH"])
def test_a_saved_model_is_ranked_by_name(kind, inverse, data, tmp_path):
    """PyKEEN numbers entities and relations by their sorted names, the graph in another order."""
    graph = backwards(load_graph(data / "graphs" / "nations"))
    factory = TriplesFactory.from_labeled_triples(labelled(graph, "train"), create_inverse_triples=inverse)
    assert list(factory.entity_to_id) != graph.entity_labels.to_pylist()
    model = model_resolver.lookup(kind)(triples_factory=factory, random_seed=1, embedding_dim=8)
    save_for_ranking(model, factory, tmp_path)
    ranks = rank(tmp_path, graph)
    in_memory = rank(scorer_for(model, graph, ModelNames.of(factory)), graph)
    evaluator = RankBasedEvaluator(metrics=["mean_rank"], add_defaults=False, clear_on_finalize=False)
    train, valid, test = (numbered(factory, labelled(graph, split)) for split in ("train", "valid", "test"))
    evaluator.evaluate(model, test, batch_size=100, additional_filter_triples=[train, valid], use_tqdm=False)
    theirs = [rank for side in ("tail", "head") for rank in np.concatenate(evaluator.ranks[side, "realistic"])]
    assert ranks.rank.tolist() == in_memory.rank.tolist() == theirs
    assert ranks.info.model == kind


def backwards(graph):
    """The same graph with all ids counted from the end."""
    last = np.array([graph.num_entities, graph.num_relations, graph.num_entities]) - 1
    return KnowledgeGraph.from_triples(
        **{split: last - graph.triples(split) for split in graph.splits},
        entity_labels=graph.entity_labels.to_pylist()[::-1],
        relation_labels=graph.relation_labels.to_pylist()[::-1],
    )


def labelled(graph, split):
    head, relation, tail = graph.triples(split).T
    return np.column_stack([graph.entity_label(head), graph.relation_label(relation), graph.entity_label(tail)])


def numbered(factory, names):
    """PyKEEN's ids in the order given, in which its own method does not leave them."""
    entity, relation = factory.entity_to_id, factory.relation_to_id
    return torch.tensor([[entity[h], relation[r], entity[t]] for h, r, t in names])
