"""A saved model and a graph that number the same names differently, against PyKEEN's own evaluator."""

import numpy as np
import pytest
import torch
from pykeen.evaluation import RankBasedEvaluator
from pykeen.models import model_resolver
from pykeen.triples import TriplesFactory

from kgprobe import KnowledgeGraph, load_graph
from kgprobe.predict.rank import rank
from kgprobe.predict.sources.pykeen import ModelNames, save_for_ranking, scorer_for


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
