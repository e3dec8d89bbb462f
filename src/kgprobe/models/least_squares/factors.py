"""A fitted model: its factors, ready to be ranked or written."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import ClassVar

from kgprobe.graph.sorted_keys import Ints
from kgprobe.predict.scorer import Floats, Side
from kgprobe.predict.similarity import Dot
from kgprobe.predict.sources.interactions import INTERACTIONS, ComposedScorer


@dataclass(frozen=True, eq=False)
class Factors:
    """An embedding scorer whose fields are the arrays that an embedding file of the model has.

    Attributes:
        name: What the literature, and an embedding file, calls the model.
        similarity: How a query is compared with a candidate.
        relation: What the relations have, in the order of their ids.
    """

    name: ClassVar[str]
    similarity: ClassVar[Dot] = Dot()
    relation: Floats

    def encode_queries(self, side: Side, given: Ints, relation: Ints) -> Floats:
        """The vectors of the queries that ask for the ``side`` of (given[i], relation[i])."""
        return self._scorer.encode_queries(side, given, relation)

    def candidates(self, side: Side) -> Floats:
        """The vectors of all entities as answers on the ``side``."""
        return self._scorer.candidates(side)

    def to_arrays(self) -> tuple[dict[str, str], dict[str, Floats]]:
        """Header and arrays of an embedding file of this model."""
        return {"model": self.name}, {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _scorer(self) -> ComposedScorer:
        interaction = INTERACTIONS[self.name]
        heads, tails = (getattr(self, table) for table in interaction.tables)
        return ComposedScorer(interaction, self.similarity, heads.shape[1], heads, tails, self.relation)
