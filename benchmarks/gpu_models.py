"""The models that gpu_ranking.py ranks: random embeddings, queries encoded before, trainable models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kgprobe.graph import KnowledgeGraph
from kgprobe.models.embedding_model import Sizes, ranked_run
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import build, model_kind
from kgprobe.predict import Model, Setting
from kgprobe.predict.scorers import Similarity, as_array

RELATIONS = 500

PACKAGED: dict[str, tuple[dict[str, Any], bool]] = {
    "TuckER": ({"dimension": 200, "relation_dimension": 200}, True),
    "HousE": ({"dimension": 512, "block": 16, "projections": 2, "gamma": 5.0}, False),
}
"""Sizes of the packaged settings for fb15k-237, and whether there are reciprocal relations."""

SMALL: dict[str, dict[str, Any]] = {
    "TuckER": {"dimension": 4, "relation_dimension": 4},
    "HousE": {"dimension": 4, "block": 2, "projections": 1},
}


def generated_graph(facts: int, entities: int, known: int) -> KnowledgeGraph:
    """Random triples, with few popular and many rare entities and relations."""
    rng = np.random.default_rng(0)

    def drawn(number: int) -> NDArray[np.int32]:
        columns = [size * rng.random(number) ** 3 for size in (entities, RELATIONS, entities)]
        return np.stack(columns, axis=1).astype(np.int32)

    valid, test = drawn(facts), drawn(facts)
    return KnowledgeGraph.from_triples(
        train=drawn(known), valid=valid, test=test, num_entities=entities, num_relations=RELATIONS
    )


@dataclass(frozen=True, eq=False)
class Rotated:
    """As ComplEx and RotatE: a query is an entity times a relation, whose complex coordinates are pairs of numbers.

    Attributes:
        similarity: How queries and entities are compared.
        entities: [entities, d] with real and imaginary parts side by side.
        relations: [relations, d] likewise.
    """

    similarity: Similarity
    entities: Tensor
    relations: Tensor

    def encode_queries(self, side: str, given: Any, relation: Any) -> Tensor:
        """The product, with the conjugate of the relation for a head."""
        ids = torch.as_tensor(np.stack([given, relation]), device=self.entities.device)
        tables = (torch.view_as_complex(table.unflatten(1, (-1, 2))) for table in (self.entities, self.relations))
        entity, factor = (table[some] for table, some in zip(tables, ids, strict=True))
        return torch.view_as_real(entity * (factor if side == "tail" else factor.conj())).flatten(1)

    def candidates(self, side: str) -> Tensor:
        """The same vectors on both sides."""
        return self.entities


@dataclass(frozen=True, eq=False)
class Encoded:
    """Queries that were encoded before, by side, in the order of the setting; arrays, or tensors on any device."""

    similarity: Similarity
    setting: Setting
    queries: dict[str, Any]
    table: dict[str, Any]

    def encode_queries(self, side: Any, given: Any, relation: Any) -> Any:
        """The queries by their places among those of the setting, which are sorted by relation and entity."""
        own, entities = self.setting.ranked.queries(side), self.setting.graph.num_entities
        keys = own.relation.astype(np.int64) * entities + own.given
        place = np.searchsorted(keys, relation.astype(np.int64) * entities + given)
        return self.queries[side][place]

    def candidates(self, side: str) -> Any:
        """The vectors of the side."""
        return self.table[side]


def first_targets(setting: Setting, side: Any) -> NDArray[np.int64]:
    """A target of each query."""
    own = setting.ranked.queries(side)
    targets: NDArray[np.int64] = own.target[np.searchsorted(own.query, np.arange(len(own)))]
    return targets


@dataclass(frozen=True, eq=False)
class OnHost:
    """A model on a device whose embeddings are handed out in the memory of the host, so that the CPU ranks the same."""

    model: Any

    @property
    def similarity(self) -> Any:
        """That of the model."""
        return self.model.similarity

    def encode_queries(self, side: Any, given: Any, relation: Any) -> Any:
        """As the model does on the device."""
        return as_array(self.model.encode_queries(side, given, relation))


class OnHostByRelation(OnHost):
    """The same for candidates that depend on the relation."""

    def candidates_for(self, side: Any, relation: int) -> Any:
        """As the model computes them on the device."""
        return as_array(self.model.candidates_for(side, relation))


class OnHostTable(OnHost):
    """The same for a table of candidates."""

    def candidates(self, side: Any) -> Any:
        """The table of the model."""
        return as_array(self.model.candidates(side))


def trainable(graph: KnowledgeGraph, place: str, *, small: bool) -> Iterator[Model]:
    """Models that take time to encode queries, or candidates for every relation, with random weights."""
    for name, (options, reciprocal) in PACKAGED.items():
        chosen = model_kind(name.lower()).load().Options(**(SMALL[name] if small else options))
        sizes = Sizes(graph.num_entities, graph.num_relations * (1 + reciprocal))
        made: Any = build(name.lower(), sizes, chosen, RandomStreams([0], "cpu"))
        yield Model(str(chosen), ranked_run(made.to(place).one_run(0), graph.num_relations if reciprocal else None))


def on_host(model: Model) -> Model:
    """The same, handed out in the memory of the host."""
    by_relation = hasattr(model.scorer, "candidates_for")
    return Model(model.name, (OnHostByRelation if by_relation else OnHostTable)(model.scorer))
