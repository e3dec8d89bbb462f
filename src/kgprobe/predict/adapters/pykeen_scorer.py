"""Scorers of PyKEEN models: exact embedding scorers for common interactions, PyKEEN's own scores for all others."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kgprobe.arrays import AnyInts, Ints
from kgprobe.predict.adapters.interactions import relation_product
from kgprobe.predict.scorers import Dot, GroupNorm, Side, Similarity, is_tensor

if TYPE_CHECKING:
    from pykeen.models import Model
    from torch import Tensor


Numbers: TypeAlias = Any
"""Real or complex numbers, as PyKEEN stores them: an array, or a tensor on any device."""

Encoder: TypeAlias = Callable[[Any, Any], Numbers]
"""Given entities and relations -> queries before rounding; each depends on its own entity and relation alone.

The ids are of the same kind as the numbers: arrays, or tensors on their device.
"""

Ids: TypeAlias = tuple[Ints, Ints]
"""For each entity and each relation of the graph, its id in the model."""

MOST_MATRIX_BYTES = 1 << 31
"""TuckER has one matrix per relation; if they take more than this, PyKEEN's own scores are used."""

_GATHERED_BYTES = 1 << 27
"""Most memory of the relation matrices, in float64, that are gathered at a time to encode queries as tensors."""

_SCORING = (
    "predict_h",
    "predict_t",
    "score_h",
    "score_t",
    "_get_representations",
    "_get_entity_representations_from_inductive_mode",
)
"""Methods that a model class must not override, if its interaction and representations are to define its scores."""

_TRIED_ENTITIES = 256
"""Number of entities that are scored to measure the memory of a query."""


def is_pykeen(model: object) -> bool:
    """Whether an object is a PyKEEN model, without importing PyKEEN."""
    library = sys.modules.get("pykeen.models")
    return library is not None and isinstance(model, library.Model)


def scorer_of(model: Model, ids: Ids | None = None) -> PykeenScores | PykeenEmbeddings:
    """The fastest scorer that scores exactly as the model does in evaluation mode.

    DistMult, ComplEx, TransE (L1, L2), RotatE, TuckER, RESCAL, SimplE and CP are compared as float32 embeddings. Those
    of a model on another device than the CPU are a copy on that device. Any other model computes the scores of all
    entities itself, on its own device. Relations are those of the graph: a model with inverse relations predicts heads
    as tails of the inverse relation, as PyKEEN does.

    Args:
        model: The model.
        ids: For each entity and each relation of the graph, its id in the model; None if they are the same.

    Example:
        >>> from pykeen.models import TransE
        >>> from pykeen.triples import KGInfo
        >>> model = TransE(triples_factory=KGInfo(9, 2, create_inverse_triples=True), embedding_dim=5, random_seed=1)
        >>> scorer = scorer_of(model)
        >>> scorer.similarity, scorer.encode_queries("head", np.array([3, 8]), np.array([0, 1])).shape
        (GroupNorm(size=1, gamma=0.0), (2, 5))
    """
    return embedding_scorer(model, ids, tensors=_on_device(model)) or PykeenScores(model, ids)


def embedding_scorer(model: Model, ids: Ids | None = None, *, tensors: bool) -> PykeenEmbeddings | None:
    """The embedding scorer of a model, with tensors on its device or with arrays; None if there is no exact one."""
    with evaluating(model):
        form = _form(model, tensors)
    return None if form is None else PykeenEmbeddings(form, model.use_inverse_triples, ids)


def _on_device(model: Model) -> bool:
    """Whether a model is on one device that is not the CPU. MPS does not count, because it has no float64."""
    devices = {parameter.device for parameter in model.parameters()}
    return len(devices) == 1 and devices.pop().type not in ("cpu", "mps")


class PykeenEmbeddings:
    """The embedding scorer of a model. Queries are encoded where its embeddings are.

    Args:
        form: The embedding form of its interaction.
        inverse: Whether the model has inverse relations, by which it predicts heads.
        ids: See `scorer_of`.
    """

    def __init__(self, form: EmbeddingForm, inverse: bool, ids: Ids | None) -> None:
        self.similarity: Similarity = form.similarity
        self._form, self._inverse, self._ids = form, inverse, ids

    def encode_queries(self, side: Side, given: AnyInts, relation: AnyInts) -> Numbers:
        """The embeddings of the queries in float32, computed in float64 and rounded once.

        If they are tensors, the sums of RESCAL and TuckER are computed in another order than those of arrays, which
        may depend on the batch: they may differ in the last bit of float64. All other models give the same bits.
        """
        if self._ids is not None:
            given, relation = self._ids[0][given], self._ids[1][relation]
        if self._inverse:
            relation, side = 2 * relation + (side == "head"), "tail"
        given, relation = (_index(values, self._form.candidates[side]) for values in (given, relation))
        return as_floats(self._form.encode[side](given, relation))

    def candidates(self, side: Side) -> Numbers:
        embeddings = self._form.candidates["tail" if self._inverse else side]
        return embeddings if self._ids is None else embeddings[_index(self._ids[0], embeddings)]


@dataclass(frozen=True, eq=False)
class PykeenScores:
    """The scorer of any model, by its own scores; see `scorer_of` for ``ids``."""

    model: Model
    ids: Ids | None = None

    @cached_property
    def bytes_per_query(self) -> int:
        """Approximate memory to score all entities for one query."""
        import torch

        tried = torch.arange(min(self.model.num_entities, _TRIED_ENTITIES))
        first = torch.zeros((1, 2), dtype=torch.int64)

        def score() -> None:
            self.model.predict_t(first, tails=tried.to(self.model.device))
            self.model.predict_h(first, heads=tried.to(self.model.device))

        with evaluating(self.model):
            score()  # caches that are filled once do not count
            return bytes_made(score) * int(self.model.num_entities) // max(len(tried), 1)

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Any:
        """The scores [queries, entities] before any sigmoid, which would round different scores to ties."""
        import torch

        if self.ids is not None:
            given, relation = self.ids[0][given], self.ids[1][relation]
        columns = (given, relation) if side == "tail" else (relation, given)
        batch = torch.from_numpy(np.column_stack(columns).astype(np.int64, copy=False))
        with evaluating(self.model):
            scores = self.model.predict_t(batch) if side == "tail" else self.model.predict_h(batch)
        return scores if self.ids is None else scores[:, torch.from_numpy(self.ids[0]).to(scores.device)]


def bytes_made(compute: Callable[[], Any]) -> int:
    """The size of all tensors that a computation allocates: an upper bound of its peak memory."""
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


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Put the model into evaluation mode, without gradients and sigmoid, and restore it afterwards."""
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


def _form(model: Model, tensors: bool) -> EmbeddingForm | None:
    from pykeen.models import ERModel

    if not isinstance(model, ERModel) or any(getattr(type(model), n) is not getattr(ERModel, n) for n in _SCORING):
        return None
    entities, relations = model.entity_representations, model.relation_representations
    # The result of a normaliser depends on the shape of its batch.
    if any(part.normalizer is not None for part in (*entities, *relations)):
        return None
    if any(part.max_id != model.num_entities for part in entities):
        return None
    numbers = [[_numbers(part(indices=None), tensors) for part in parts] for parts in (entities, relations)]
    return embedding_form(model.interaction, *numbers)


def _numbers(tensor: Tensor, tensors: bool) -> Numbers:
    """The numbers of a tensor without gradients: a copy on its device, or an array."""
    return tensor.detach().resolve_conj().resolve_neg().clone() if tensors else tensor.numpy(force=True)


@dataclass(frozen=True, eq=False)
class EmbeddingForm:
    """An interaction f(h, r, t) as the similarity of a query and a candidate, on either side.

    Attributes:
        similarity: The similarity.
        candidates: The embeddings of all entities as answers on the side.
        encode: Encodes the queries for the side; relations are those of the model.
    """

    similarity: Similarity
    candidates: Mapping[Side, Numbers]
    encode: Mapping[Side, Encoder]


def embedding_form(interaction: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> EmbeddingForm | None:
    """The embedding form of an interaction with these representations; None if there is no exact one.

    Example:
        >>> from pykeen.nn.modules import TransEInteraction
        >>> entities, relations = np.float32([[0, 0], [3, 4]]), np.float32([[1, 1]])
        >>> form = embedding_form(TransEInteraction(p=2), [entities], [relations])
        >>> form.similarity, form.encode["head"](np.array([1]), np.array([0])).tolist()
        (GroupNorm(size=None, gamma=0.0), [[2.0, 3.0]])
        >>> embedding_form(TransEInteraction(p=3), [entities], [relations]) is None
        True
    """
    from pykeen.nn import modules

    while type(interaction) is modules.ClampedInteraction and interaction.clamp_score is None:
        interaction = interaction.base
    name = type(interaction).__name__
    if name not in _FORMS or getattr(modules, name) is not type(interaction):
        return None
    number, build = _FORMS[name]
    if any(str(part.dtype).removeprefix("torch.") != number for part in (*entities, *relations)):
        return None
    return build(interaction, entities, relations)


def as_floats(numbers: Numbers) -> Numbers:
    """Round numbers to float32; a complex number becomes two coordinates, its real and imaginary part."""
    if is_tensor(numbers):
        real = _library(numbers).view_as_real(numbers).flatten(1) if numbers.is_complex() else numbers
        return real.float().contiguous()
    with np.errstate(over="ignore"):
        if np.iscomplexobj(numbers):
            return np.ascontiguousarray(numbers, dtype=np.complex64).view(np.float32)
        return np.ascontiguousarray(numbers, dtype=np.float32)


def _dist_mult(_: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> EmbeddingForm:
    return _product(Dot(), entities[0], relations[0], entities[0])


def _canonical_decomposition(_: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> EmbeddingForm:
    heads, relation, tails = (part.reshape(len(part), -1) for part in (entities[0], relations[0], entities[1]))
    return _product(Dot(), heads, relation, tails)


def _simple(_: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> EmbeddingForm:
    """Half the sum of two DistMult scores is one DistMult score of the concatenated embeddings."""
    hstack = _library(entities[0]).hstack
    both = hstack(entities)
    return _product(Dot(), both, 0.5 * hstack(relations), both)


def _rotate(_: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> EmbeddingForm:
    """PyKEEN takes one norm of all coordinates, where the published RotatE adds up the moduli.

    For heads it multiplies the tail by the conjugate, which is the inverse rotation only if the modulus is 1.
    """
    return _product(GroupNorm(size=None), entities[0], relations[0], entities[0])


def _product(similarity: Similarity, heads: Numbers, relations: Numbers, tails: Numbers) -> EmbeddingForm:
    """Queries h * r for tails and t * conj(r) for heads."""
    return EmbeddingForm(
        similarity,
        {"head": as_floats(heads), "tail": as_floats(tails)},
        {
            "head": lambda given, relation: _wide(tails[given]) * relations[relation].conj(),
            "tail": lambda given, relation: _wide(heads[given]) * relations[relation],
        },
    )


def _trans_e(interaction: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> EmbeddingForm | None:
    norms = {(1, False): GroupNorm(size=1), (1, True): GroupNorm(size=1), (2, False): GroupNorm(size=None)}
    similarity = norms.get((interaction.p, interaction.power_norm))
    if similarity is None:
        return None
    embeddings, shifts = entities[0], relations[0]
    return EmbeddingForm(
        similarity,
        {"head": as_floats(embeddings), "tail": as_floats(embeddings)},
        {
            "head": lambda given, relation: _wide(embeddings[given]) - shifts[relation],
            "tail": lambda given, relation: _wide(embeddings[given]) + shifts[relation],
        },
    )


def _rescal(_: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> EmbeddingForm:
    embeddings, matrices = entities[0], relations[0]
    return EmbeddingForm(
        Dot(),
        {"head": as_floats(embeddings), "tail": as_floats(embeddings)},
        {
            "head": lambda given, relation: _images(embeddings[given], matrices.swapaxes(1, 2), relation),
            "tail": lambda given, relation: _images(embeddings[given], matrices, relation),
        },
    )


def _tucker(interaction: Any, entities: Sequence[Numbers], relations: Sequence[Numbers]) -> EmbeddingForm | None:
    """The score is h' M_r t + v_r . t: the core tensor gives M_r, batch normalisation scales it and adds v_r."""
    embeddings, core = entities[0], _wide(_numbers(interaction.core_tensor, is_tensor(entities[0])))
    if len(relations[0]) * embeddings.shape[1] ** 2 * 8 > MOST_MATRIX_BYTES:
        return None
    library, weights = _library(embeddings), _wide(relations[0])
    shape = len(weights), len(core), core.shape[2]
    matrices = weights.new_empty(shape) if is_tensor(weights) else np.empty(shape)
    for i, plane in enumerate(core):
        matrices[:, i] = library.einsum("rj,jk->rk", weights, plane)
    head_scale, head_shift = _normalisation(interaction.head_batch_norm, core)
    scale, shift = _normalisation(interaction.head_relation_batch_norm, core)
    offsets = library.einsum("i,rik->rk", head_shift, matrices) * scale + shift
    matrices *= head_scale[:, None] * scale
    # v_r . t is the same for all heads: it is the last coordinate of a head query, which is 1 in every candidate.
    with_one = library.hstack([embeddings, library.ones_like(embeddings[:, :1])])

    def head_queries(given: Any, relation: Any) -> Numbers:
        constant = (_wide(embeddings[given]) * offsets[relation]).sum(axis=1, keepdims=True)
        return library.hstack([_images(embeddings[given], matrices.swapaxes(1, 2), relation), constant])

    return EmbeddingForm(
        Dot(),
        {"head": with_one, "tail": as_floats(embeddings)},
        {
            "head": head_queries,
            "tail": lambda given, relation: _images(embeddings[given], matrices, relation) + offsets[relation],
        },
    )


def _normalisation(layer: Any, core: Numbers) -> tuple[Numbers, Numbers]:
    """The scale and the shift of batch normalisation in evaluation mode."""
    library = _library(core)
    if layer is None:
        return library.ones_like(core[:, 0, 0]), library.zeros_like(core[:, 0, 0])
    tensors = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
    weight, bias, mean, variance = (_wide(_numbers(tensor, is_tensor(core))) for tensor in tensors)
    scale = weight / library.sqrt(variance + layer.eps)
    return scale, bias - mean * scale


def _images(rows: Numbers, matrices: Numbers, relation: Any) -> Numbers:
    """Each row times the matrix of its relation, in float64; see `relation_product`."""
    if not is_tensor(rows):
        return relation_product(rows, matrices, relation)
    step = max(1, _GATHERED_BYTES // (8 * matrices.shape[1] * matrices.shape[2]))
    parts = zip(rows.split(step), relation.split(step), strict=True)
    library = _library(rows)
    return library.cat([library.bmm(_wide(some)[:, None], _wide(matrices[which]))[:, 0] for some, which in parts])


def _library(numbers: Numbers) -> Any:
    """The module whose functions take these numbers: torch or NumPy."""
    if not is_tensor(numbers):
        return np
    import torch

    return torch


def _index(ids: AnyInts, numbers: Numbers) -> Any:
    """Ids as they are needed to take rows of the numbers."""
    if not is_tensor(numbers):
        return ids
    return _library(numbers).from_numpy(ids.astype(np.int64)).to(numbers.device)


def _wide(numbers: Numbers) -> Numbers:
    """Convert to double precision, in which a product of two of PyKEEN's numbers is exact."""
    if is_tensor(numbers):
        library = _library(numbers)
        return numbers.to(library.promote_types(numbers.dtype, library.float64))
    return numbers.astype(np.result_type(numbers, np.float64))


Build: TypeAlias = Callable[[Any, Sequence[Numbers], Sequence[Numbers]], EmbeddingForm | None]

_FORMS: Mapping[str, tuple[str, Build]] = {
    "CPInteraction": ("float32", _canonical_decomposition),
    "ComplExInteraction": ("complex64", _dist_mult),
    "DistMultInteraction": ("float32", _dist_mult),
    "RESCALInteraction": ("float32", _rescal),
    "RotatEInteraction": ("complex64", _rotate),
    "SimplEInteraction": ("float32", _simple),
    "TransEInteraction": ("float32", _trans_e),
    "TuckERInteraction": ("float32", _tucker),
}
