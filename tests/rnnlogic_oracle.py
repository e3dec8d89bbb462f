"""RNNLogic by brute force: dense matrices, one triple at a time, the triple really taken out of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kgprobe.models.embedding_model import Sizes
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.rnnlogic import RNNLogic, RNNLogicOptions
from kgprobe.models.rules.paths import Adjacency
from kgprobe.models.rules.rule_table import Rules


def random_triples(seed: int, entities: int = 9, relations: int = 2, count: int = 30) -> NDArray[Any]:
    """Random triples, some of them from an entity to itself."""
    rng = np.random.default_rng(seed)
    return np.unique(rng.integers(0, (entities, relations, entities), (count, 3)), axis=0)


def every_rule(relations: int, length: int = 3, share: float = 0.3, seed: int = 0) -> Rules:
    """Some of all rules up to a length, those among them that use what they conclude, ordered by head."""
    words = 2 * relations
    rng = np.random.default_rng(seed)
    bodies = [
        [*body, *[-1] * (length - size)]
        for size in range(1, length + 1)
        for body in np.stack(np.unravel_index(np.arange(words**size), (words,) * size), 1).tolist()
    ]
    rules = [(head, body) for head in range(words) for body in bodies if body[0] != head or body[1] >= 0]
    kept = [rule for rule in rules if rng.random() < share]
    return Rules.from_bodies(relations, [head for head, _ in kept], [body for _, body in kept])


def random_model(rules: Rules, entities: int, seed: int = 0, **options: Any) -> RNNLogic:
    """A model in float64 whose parameters are all random."""
    own = RNNLogicOptions(**({"rule_dimension": 3, "hidden": 5} | options))
    model = RNNLogic(Sizes(entities, 2 * rules.relations), len(rules), own, RandomStreams([seed], "cpu")).double()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=draw, dtype=torch.float64) * 0.7)
    return model


def dense_counts(triples: NDArray[Any], entities: int, rules: Rules) -> NDArray[Any]:
    """Numbers of paths [rules, entities, entities]."""
    edges = np.zeros((2 * rules.relations, entities, entities))
    for head, relation, tail in triples.tolist():
        edges[relation, head, tail] = edges[relation + rules.relations, tail, head] = 1
    counts = []
    for body in rules.body.tolist():
        paths = np.eye(entities)
        for atom in body:
            paths = paths @ edges[atom] if atom >= 0 else paths
        counts.append(paths)
    return np.array(counts).reshape(len(rules), entities, entities)


def dense_scores(model: RNNLogic, counts: NDArray[Any], rules: Rules, relation: int, given: int) -> torch.Tensor:
    """The scores of all entities [entities]; differentiable."""
    own = torch.from_numpy(rules.head == relation)
    paths = torch.from_numpy(counts[:, given, :]).T[:, own]
    evidence = model.weigh(paths) @ model.rule[own]
    asked = torch.full((len(paths),), relation)
    base, row = model.base(asked[:1])
    return base[row[0]] + torch.where((paths > 0).any(1), model.rule_scores(evidence, asked), 0)


def dense_losses(model: RNNLogic, triples: NDArray[Any], entities: int, rules: Rules) -> dict[tuple[int, ...], Any]:
    """The loss of every triple, by (given, relation, answer) with reverse relations for heads."""
    losses = {}
    both = [(x, r, y) for x, r, y in triples.tolist()] + [(y, r + rules.relations, x) for x, r, y in triples.tolist()]
    for place, (x, relation, y) in enumerate(both):
        counts = dense_counts(np.delete(triples, place % len(triples), 0), entities, rules)
        scores = dense_scores(model, counts, rules, relation, x)
        answers = {answer for given, asked, answer in both if (given, asked) == (x, relation)}
        compared = [e for e in range(entities) if e == y or e not in answers]
        losses[x, relation, y] = torch.logsumexp(scores[compared], 0) - scores[y]
    return losses


def adjacency_of(triples: NDArray[Any], entities: int, relations: int) -> Adjacency:
    """The triples, for a grounder."""
    return Adjacency(triples, entities, relations)
