import numpy as np
import pytest
import torch

from kgprobe import DataError, KnowledgeGraph
from kgprobe.predict.sources.pykeen import scorer_for, scorer_of
from kgprobe.predict.sources.pykeen.fit import ModelNames

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
