import numpy as np
import pytest

import kgprobe as kp
from kgprobe.graph.popularity import Popularity
from planting import only, planted, unclean


def both(ranks: kp.Ranks, entity, relation) -> kp.Ranks:
    return planted(ranks, entity_popularity=entity, relation_popularity=relation)


def test_the_graphs_own_is_clean_even_in_single_precision(on_umls, umls) -> None:
    ranks = on_umls["CP"]
    single = [ranks.numbers(name).astype(np.float32) for name in ("entity_popularity", "relation_popularity")]
    assert unclean({"CP": both(ranks, *single)}, umls) == []
    assert unclean({"CP": planted(ranks, entity_popularity=None)}, umls) == []


def test_that_of_the_given_entity_is_recognised(on_umls, umls) -> None:
    ranks = on_umls["CP"]
    given = np.where(ranks.predicts_tail, ranks.head, ranks.tail)
    wrong = both(ranks, umls.popularity.entity(given), umls.popularity.relation(ranks.relation, given))
    found = only({"CP": wrong}, umls)
    assert found.kind == "popularity"
    assert "delta(e) and delta(r|e) are the popularity of the given entity, not of the target" in found.message
    differs = wrong.numbers("entity_popularity") != ranks.numbers("entity_popularity")
    assert int(differs.sum()) <= found.rows <= len(ranks)


def test_swapped_columns_are_recognised(on_umls, umls) -> None:
    ranks = on_umls["CP"]
    wrong = both(ranks, ranks.numbers("relation_popularity"), ranks.numbers("entity_popularity"))
    message = only({"CP": wrong}, umls).message
    assert "delta(e) is the value of delta(r|e) (the columns are swapped)" in message


def test_other_splits_are_recognised(on_umls, umls) -> None:
    ranks = on_umls["CP"]
    for splits, name in ((("train", "valid", "test"), "on all splits"), (("train", "valid"), "on train and valid")):
        popularity = Popularity.from_triples(umls.triples(*splits), umls.num_entities, umls.num_relations)
        assert f"counted {name}, not on train" in only({"CP": ranks.with_popularity(popularity)}, umls).message


ENTITY = {
    "twice as large": lambda ranks, graph: 2 * ranks.numbers("entity_popularity"),
    "the degree divided by the largest degree": lambda ranks, graph: (
        ranks.numbers("entity_popularity") / graph.popularity.entity(np.arange(graph.num_entities)).max()
    ),
    "the same for all entities": lambda ranks, graph: np.full(len(ranks), 1 / graph.num_entities),
    "counted on the side of the target only": lambda ranks, graph: np.array(
        [
            sum(triple[2 if tail else 0] == target for triple in graph.triples("train").tolist())
            / len(graph.triples("train"))
            for target, tail in zip(ranks.target.tolist(), ranks.predicts_tail.tolist(), strict=True)
        ]
    ),
}


@pytest.mark.parametrize("name", ENTITY)
def test_other_ways_to_count_entities_are_recognised(on_nations, nations, name: str) -> None:
    ranks = on_nations["CP"]
    wrong = planted(ranks, entity_popularity=ENTITY[name](ranks, nations))
    assert f"delta(e) is {name}" in only({"CP": wrong}, nations).message


def test_the_share_of_a_pair_is_recognised(on_umls, umls) -> None:
    ranks = on_umls["CP"]
    joint = ranks.numbers("entity_popularity") * ranks.numbers("relation_popularity")
    message = only({"CP": planted(ranks, relation_popularity=joint)}, umls).message
    assert "delta(r|e) is the share of the pair in all triples" in message


def test_a_few_wrong_rows_are_counted_without_a_cause(on_umls, umls) -> None:
    ranks = on_umls["CP"]
    values = ranks.numbers("entity_popularity").copy()
    values[:5] = 0.987
    found = only({"CP": planted(ranks, entity_popularity=values)}, umls)
    assert (found.rows, " is " in found.message) == (5, False)


def test_degrees_are_named_by_the_rule_that_they_break(on_umls, umls) -> None:
    ranks = on_umls["CP"]
    degrees = ranks.numbers("entity_popularity") * 2 * len(umls.triples("train"))
    found = only({"CP": planted(ranks, entity_popularity=degrees)}, umls)
    assert found.kind == "rules"
    assert "divided by twice the number of training triples" in found.message


def test_a_graph_without_training_triples_tells_nothing(umls) -> None:
    bare = kp.KnowledgeGraph.from_triples(test=umls.triples("test"), num_entities=135, num_relations=46)
    ranks = kp.rank("random", bare)
    assert unclean({"mine": planted(ranks, entity_popularity=np.full(len(ranks), 0.5))}, bare) == []


def test_rows_that_are_wrong_in_either_column_are_counted_once(on_umls, umls) -> None:
    ranks = on_umls["CP"]
    entity, relation = (ranks.numbers(name).copy() for name in ("entity_popularity", "relation_popularity"))
    entity[:5], relation[3:10] = 0.987, 0.987
    assert only({"CP": both(ranks, entity, relation)}, umls).rows == 10
