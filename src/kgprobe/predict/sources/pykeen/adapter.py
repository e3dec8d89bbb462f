"""A PyKEEN model in memory as a scorer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kgprobe.graph.sorted_keys import Ints
from kgprobe.predict.scorer import Floats, Side
from kgprobe.predict.similarity import Similarity
from kgprobe.predict.sources.pykeen.forms import Numbers, VectorForm, as_floats, vector_form
from kgprobe.predict.sources.pykeen.working_memory import bytes_made

if TYPE_CHECKING:
    from pykeen.models import Model

_SCORING = (
    "predict_h",
    "predict_t",
    "score_h",
    "score_t",
    "_get_representations",
    "_get_entity_representations_from_inductive_mode",
)
"""What a model class must not change, if its interaction and its vectors are to say all."""

_TRIED_ENTITIES = 256
"""How many entities are scored to find out how much memory a query needs."""


def is_pykeen(model: object) -> bool:
    """Whether something is a PyKEEN model; PyKEEN is not loaded to find out.

    Example:
        >>> is_pykeen("TransE")
        False
    """
    library = sys.modules.get("pykeen.models")
    return library is not None and isinstance(model, library.Model)


def scorer_of(model: Model) -> PykeenScores | PykeenVectors:
    """The fastest scorer that scores exactly as a model does in evaluation.

    DistMult, ComplEx, TransE (L1, L2), RotatE, TuckER, RESCAL, SimplE and CP are compared as float32 vectors. Any other
    model is asked for the scores of all entities, on the device where it is. Relations are those of the graph: a
    model that was trained with inverse relations is asked for heads by way of them, as PyKEEN does.

    Example:
        >>> from pykeen.models import TransE
        >>> from pykeen.triples import KGInfo
        >>> model = TransE(triples_factory=KGInfo(9, 2, create_inverse_triples=True), embedding_dim=5, random_seed=1)
        >>> scorer = scorer_of(model)
        >>> scorer.similarity, scorer.encode_queries("head", np.array([3, 8]), np.array([0, 1])).shape
        (GroupNorm(size=1, gamma=0.0), (2, 5))
    """
    with evaluating(model):
        form = _form(model)
    return PykeenScores(model) if form is None else PykeenVectors(form, model.use_inverse_triples)


class PykeenVectors:
    """A model that compares vectors.

    Args:
        form: The vectors.
        inverse: Whether the model has an inverse of every relation, which it is asked for heads.
    """

    def __init__(self, form: VectorForm, inverse: bool) -> None:
        self.similarity: Similarity = form.similarity
        self._form, self._inverse = form, inverse

    def encode_queries(self, side: Side, given: Ints, relation: Ints) -> Floats:
        """The vectors of the queries, computed in float64 and rounded once."""
        if self._inverse:
            relation, side = 2 * relation + (side == "head"), "tail"
        return as_floats(self._form.encode[side](given, relation))

    def candidates(self, side: Side) -> Floats:
        """The vectors of all entities as answers on the side."""
        return self._form.candidates["tail" if self._inverse else side]


@dataclass(frozen=True, eq=False)
class PykeenScores:
    """Any model, which is asked for its scores."""

    model: Model

    @cached_property
    def bytes_per_query(self) -> int:
        """About how much memory the model needs to score all entities for one query."""
        import torch

        tried = torch.arange(min(self.model.num_entities, _TRIED_ENTITIES))
        first = torch.zeros((1, 2), dtype=torch.int64)

        def score() -> None:
            self.model.predict_t(first, tails=tried.to(self.model.device))
            self.model.predict_h(first, heads=tried.to(self.model.device))

        with evaluating(self.model):
            score()  # what is computed once and kept does not count
            return bytes_made(score) * int(self.model.num_entities) // max(len(tried), 1)

    def score(self, side: Side, given: Ints, relation: Ints) -> Any:
        """The scores [queries, entities] before any sigmoid, which rounds different scores to the same."""
        import torch

        columns = (given, relation) if side == "tail" else (relation, given)
        batch = torch.from_numpy(np.column_stack(columns).astype(np.int64, copy=False))
        with evaluating(self.model):
            return self.model.predict_t(batch) if side == "tail" else self.model.predict_h(batch)


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """The model as it is evaluated, without gradients and sigmoid; afterwards it is as it was."""
    import torch

    trained = [module for module in model.modules() if module.training]
    sigmoid = model.predict_with_sigmoid
    model.eval()
    model.predict_with_sigmoid = False
    try:
        with torch.no_grad():
            yield
    finally:
        model.predict_with_sigmoid = sigmoid
        for module in trained:
            module.training = True


def _form(model: Model) -> VectorForm | None:
    from pykeen.models import ERModel

    if not isinstance(model, ERModel) or any(getattr(type(model), n) is not getattr(ERModel, n) for n in _SCORING):
        return None
    entities, relations = model.entity_representations, model.relation_representations
    # What a normaliser does depends on the shape of the batch that it is given.
    if any(part.normalizer is not None for part in (*entities, *relations)):
        return None
    if any(part.max_id != model.num_entities for part in entities):
        return None
    return vector_form(model.interaction, [_array(part) for part in entities], [_array(part) for part in relations])


def _array(representation: Any) -> Numbers:
    array: Numbers = representation(indices=None).numpy(force=True)
    return array
