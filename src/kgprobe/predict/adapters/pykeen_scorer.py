"""PyKEEN models in memory as scorers, and their interactions as dot products or norms where they are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Floats, run_starts
from kgprobe.predict.scorers import Dot, GroupNorm, Side, Similarity, Singles

if TYPE_CHECKING:
    from pykeen.models import Model


Numbers: TypeAlias = NDArray[Any]

"""Real or complex numbers, as PyKEEN stores them."""

Encoder: TypeAlias = Callable[[AnyInts, AnyInts], Numbers]

"""Given entities and relations -> the queries, not yet rounded; each depends on its own entity and relation alone."""

MOST_MATRIX_BYTES = 1 << 31

"""TuckER has one matrix for each relation; if they take more than this, they are not kept."""


@dataclass(frozen=True, eq=False)
class VectorForm:
    """An interaction f(h, r, t) as the comparison of a query with a candidate, on either side.

    Attributes:
        similarity: How they are compared.
        candidates: The vectors of all entities as answers on the side.
        encode: Makes the queries that ask for the side; relations are those of the model.
    """

    similarity: Similarity
    candidates: Mapping[Side, Singles]
    encode: Mapping[Side, Encoder]


def vector_form(interaction: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> VectorForm | None:
    """The form of an interaction with these representations, or None where there is none that is exact.

    Example:
        >>> from pykeen.nn.modules import TransEInteraction
        >>> entities, relations = np.float32([[0, 0], [3, 4]]), np.float32([[1, 1]])
        >>> form = vector_form(TransEInteraction(p=2), [entities], [relations])
        >>> form.similarity, form.encode["head"](np.array([1]), np.array([0])).tolist()
        (GroupNorm(size=None, gamma=0.0), [[2.0, 3.0]])
        >>> vector_form(TransEInteraction(p=3), [entities], [relations]) is None
        True
    """
    from pykeen.nn import modules

    while type(interaction) is modules.ClampedInteraction and interaction.clamp_score is None:
        interaction = interaction.base
    name = type(interaction).__name__
    if name not in _FORMS or getattr(modules, name) is not type(interaction):
        return None
    number, build = _FORMS[name]
    if any(array.dtype != number for array in (*entities, *relations)):
        return None
    return build(interaction, entities, relations)


def as_floats(numbers: Numbers) -> Singles:
    """Numbers rounded to float32; a complex number is two coordinates, the real and the imaginary part.

    Example:
        >>> as_floats(np.array([[1 + 2j, 3]])).tolist()
        [[1.0, 2.0, 3.0, 0.0]]
    """
    with np.errstate(over="ignore"):
        if np.iscomplexobj(numbers):
            return np.ascontiguousarray(numbers, dtype=np.complex64).view(np.float32)
        return np.ascontiguousarray(numbers, dtype=np.float32)


def _dist_mult(_: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> VectorForm:
    return _product(Dot(), entities[0], relations[0], entities[0])


def _canonical_decomposition(_: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> VectorForm:
    return _product(Dot(), _flat(entities[0]), _flat(relations[0]), _flat(entities[1]))


def _simple(_: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> VectorForm:
    """Half the sum of two DistMult scores is one DistMult score of the vectors side by side."""
    both = np.hstack(entities)
    return _product(Dot(), both, np.float32(0.5) * np.hstack(relations), both)


def _rotate(_: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> VectorForm:
    """PyKEEN takes one norm of all coordinates, where RotatE as published adds up the moduli.

    For heads it turns the tail back by the conjugate, which is the inverse rotation only where the modulus is 1.
    """
    return _product(GroupNorm(size=None), entities[0], relations[0], entities[0])


def _product(similarity: Similarity, heads: Numbers, relations: Numbers, tails: Numbers) -> VectorForm:
    """Queries h * r for tails and t * conj(r) for heads."""
    return VectorForm(
        similarity,
        {"head": as_floats(heads), "tail": as_floats(tails)},
        {
            "head": lambda given, relation: _wide(tails[given]) * relations[relation].conj(),
            "tail": lambda given, relation: _wide(heads[given]) * relations[relation],
        },
    )


def _trans_e(interaction: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> VectorForm | None:
    norms = {(1, False): GroupNorm(size=1), (1, True): GroupNorm(size=1), (2, False): GroupNorm(size=None)}
    similarity = norms.get((interaction.p, interaction.power_norm))
    if similarity is None:
        return None
    vectors, shifts = entities[0], relations[0]
    return VectorForm(
        similarity,
        {"head": as_floats(vectors), "tail": as_floats(vectors)},
        {
            "head": lambda given, relation: _wide(vectors[given]) - shifts[relation],
            "tail": lambda given, relation: _wide(vectors[given]) + shifts[relation],
        },
    )


def _rescal(_: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> VectorForm:
    vectors, matrices = entities[0], relations[0]
    return VectorForm(
        Dot(),
        {"head": as_floats(vectors), "tail": as_floats(vectors)},
        {
            "head": lambda given, relation: _times(vectors[given], matrices.swapaxes(1, 2), relation),
            "tail": lambda given, relation: _times(vectors[given], matrices, relation),
        },
    )


def _tucker(interaction: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> VectorForm | None:
    """The score is h' M_r t + v_r . t: the core tensor gives M_r, batch normalisation scales it and adds v_r."""
    vectors, core = entities[0], _wide(interaction.core_tensor.numpy(force=True))
    if len(relations[0]) * vectors.shape[1] ** 2 * 8 > MOST_MATRIX_BYTES:
        return None
    weights = _wide(relations[0])
    matrices = np.empty((len(weights), len(core), core.shape[2]))
    for i, plane in enumerate(core):
        matrices[:, i] = np.einsum("rj,jk->rk", weights, plane)
    head_scale, head_shift = _normalisation(interaction.head_batch_norm, len(core))
    scale, shift = _normalisation(interaction.head_relation_batch_norm, len(core))
    offsets = np.einsum("i,rik->rk", head_shift, matrices) * scale + shift
    matrices *= head_scale[:, None] * scale
    # v_r . t is the same for all heads: the last coordinate of a query for heads, which is 1 in every candidate.
    with_one = np.hstack([vectors, np.ones((len(vectors), 1), dtype=np.float32)])

    def head_queries(given: AnyInts, relation: AnyInts) -> Floats:
        constant = (_wide(vectors[given]) * offsets[relation]).sum(axis=1, keepdims=True)
        return np.hstack([_times(vectors[given], matrices.swapaxes(1, 2), relation), constant])

    return VectorForm(
        Dot(),
        {"head": with_one, "tail": as_floats(vectors)},
        {
            "head": head_queries,
            "tail": lambda given, relation: _times(vectors[given], matrices, relation) + offsets[relation],
        },
    )


def _normalisation(layer: Any, dimension: int) -> tuple[Floats, Floats]:
    """What a batch normalisation multiplies by and adds when it is not trained."""
    if layer is None:
        return np.ones(dimension), np.zeros(dimension)
    tensors = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
    weight, bias, mean, variance = (_wide(tensor.numpy(force=True)) for tensor in tensors)
    scale = weight / np.sqrt(variance + layer.eps)
    return scale, bias - mean * scale


def _times(vectors: Numbers, matrices: Numbers, relation: AnyInts) -> Floats:
    """Each row times the matrix of its relation.

    Added up in the order of the coordinates by NumPy's own loops: what a BLAS adds depends on the number of rows.
    """
    product = np.empty((len(vectors), matrices.shape[2]))
    wide, order = _wide(vectors), np.argsort(relation, kind="stable")
    ends = np.append(run_starts(relation[order].astype(np.int64)), len(order))
    for start, stop in pairwise(ends):
        rows = order[start:stop]
        matrix = np.ascontiguousarray(matrices[relation[rows[0]]], dtype=np.float64)
        product[rows] = np.einsum("ni,ik->nk", wide[rows], matrix)
    return product


def _wide(numbers: Numbers) -> Numbers:
    """In double precision, in which a product of two of PyKEEN's numbers is exact."""
    return numbers.astype(np.result_type(numbers, np.float64))


def _flat(numbers: Numbers) -> Numbers:
    return numbers.reshape(len(numbers), -1)


Build: TypeAlias = Callable[[Any, Sequence[Numbers], Sequence[Numbers]], VectorForm | None]

_FORMS: Mapping[str, tuple[type[np.generic], Build]] = {
    "CPInteraction": (np.float32, _canonical_decomposition),
    "ComplExInteraction": (np.complex64, _dist_mult),
    "DistMultInteraction": (np.float32, _dist_mult),
    "RESCALInteraction": (np.float32, _rescal),
    "RotatEInteraction": (np.complex64, _rotate),
    "SimplEInteraction": (np.float32, _simple),
    "TransEInteraction": (np.float32, _trans_e),
    "TuckERInteraction": (np.float32, _tucker),
}


def bytes_made(compute: Callable[[], Any]) -> int:
    """The size of all tensors that a computation makes on its way: an upper bound of what it needs at any time.

    Example:
        >>> import torch
        >>> a = torch.zeros(10)
        >>> bytes_made(lambda: (a + 1).sum())
        44
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Tally(TorchDispatchMode):  # type: ignore[no-untyped-call]
        made: int = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            self.made += sum(leaf.nbytes for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
            return result

    tally = Tally()  # type: ignore[no-untyped-call]
    with tally:
        compute()
    return tally.made


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

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Singles:
        """The vectors of the queries, computed in float64 and rounded once."""
        if self._inverse:
            relation, side = 2 * relation + (side == "head"), "tail"
        return as_floats(self._form.encode[side](given, relation))

    def candidates(self, side: Side) -> Singles:
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

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Any:
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
