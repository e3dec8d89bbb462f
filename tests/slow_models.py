"""The embedding models once more: float64, one fact at a time, written from their definitions."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from kgprobe.models.complex import ComplExOptions
from kgprobe.models.distmult import DistMultOptions
from kgprobe.models.embedding_model import EmbeddingModel, Sizes
from kgprobe.models.house import HousEOptions
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.registry import build
from kgprobe.models.rotate import RotatEOptions
from kgprobe.models.transe import TransEOptions
from kgprobe.models.tucker import TuckEROptions
from kgprobe.predict.scorers import SIDES, Side

Doubles = NDArray[np.float64]

Tables = dict[str, Doubles]

"""The parameters and buffers of a single run."""

KINDS: dict[str, tuple[str, Any]] = {
    "TransE-1": ("TransE", TransEOptions(dimension=5, gamma=3.0, norm=1)),
    "TransE-2": ("TransE", TransEOptions(dimension=5, gamma=3.0, norm=2)),
    "DistMult": ("DistMult", DistMultOptions(dimension=5, dropout=0.3)),
    "ComplEx": ("ComplEx", ComplExOptions(dimension=3, dropout=0.3)),
    "RotatE": ("RotatE", RotatEOptions(dimension=3, gamma=4.0)),
    "HousE-0": ("HousE", HousEOptions(dimension=6, block=2, projections=0, gamma=5.0)),
    "HousE-1": ("HousE", HousEOptions(dimension=6, block=3, projections=1, threshold=0.4)),
    "HousE-2": ("HousE", HousEOptions(dimension=6, block=3, reflections=3, projections=2, threshold=0.4)),
    "TuckER": ("TuckER", TuckEROptions(dimension=4, relation_dimension=3)),
}

"""Every model in its variants, small enough for loops, large enough for all of their parts to differ."""


def fresh(kind: str, sizes: Sizes, seeds: Sequence[int] = (0,)) -> EmbeddingModel:
    """A model as it is before training, one run for each seed."""
    name, options = KINDS[kind]
    return build(name, sizes, options, RandomStreams(seeds, "cpu"))


def scattered(kind: str, sizes: Sizes, runs: int = 1, seed: int = 0) -> EmbeddingModel:
    """A model in float64, ready to be asked, whose parameters and buffers are large and all different."""
    model = fresh(kind, sizes, range(runs)).double().eval()
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for own in model.parameters():
            own.copy_(torch.from_numpy(rng.normal(0, 0.8, own.shape)))
        for own in model.buffers():
            own.copy_(torch.from_numpy(rng.uniform(0.5, 2, own.shape)))
    return model


def tables(model: EmbeddingModel, run: int = 0) -> Tables:
    """What a run of a model holds."""
    return {name: own[run].double().numpy().copy() for name, own in model.state_dict().items()}


def slow_score(kind: str, own: Tables, side: Side, fact: tuple[int, int, int]) -> float:
    """The score of a fact, asked for on a side."""
    name, options = KINDS[kind]
    return _SCORES[name](own, options, side, *fact)


def slow_scores(kind: str, own: Tables) -> Doubles:
    """The scores of all entities as answers: [side (head, tail), given, relation, answer]."""
    entities = len(own["entity"])
    relations = next(len(own[name]) for name in ("relation", "reflection") if name in own)
    scores = np.empty((2, entities, relations, entities))
    for side in SIDES:
        for given in range(entities):
            for relation in range(relations):
                for answer in range(entities):
                    fact = (given, relation, answer) if side == "tail" else (answer, relation, given)
                    scores[int(side == "tail"), given, relation, answer] = slow_score(kind, own, side, fact)
    return scores


def _transe(own: Tables, options: TransEOptions, side: Side, head: int, relation: int, tail: int) -> float:
    vectors = zip(own["entity"][head], own["relation"][relation], own["entity"][tail], strict=True)
    apart = [abs(h + r - t) for h, r, t in vectors]
    return options.gamma - (sum(apart) if options.norm == 1 else math.sqrt(sum(value**2 for value in apart)))


def _distmult(own: Tables, options: DistMultOptions, side: Side, head: int, relation: int, tail: int) -> float:
    return sum(
        h * r * t for h, r, t in zip(own["entity"][head], own["relation"][relation], own["entity"][tail], strict=True)
    )


def _complex(own: Tables, options: ComplExOptions, side: Side, head: int, relation: int, tail: int) -> float:
    def coordinates(row: Doubles) -> list[complex]:
        return [complex(row[i], row[i + options.dimension]) for i in range(options.dimension)]

    rows = own["entity"][head], own["relation"][relation], own["entity"][tail]
    return sum((h * r * t.conjugate()).real for h, r, t in zip(*map(coordinates, rows), strict=True))


def _rotate(own: Tables, options: RotatEOptions, side: Side, head: int, relation: int, tail: int) -> float:
    bound = (options.gamma + 2) / options.dimension
    distance = 0.0
    for i in range(options.dimension):
        h, t = (complex(*own["entity"][entity][2 * i : 2 * i + 2]) for entity in (head, tail))
        distance += abs(h * cmath.exp(1j * math.pi * own["relation"][relation][i] / bound) - t)
    return options.gamma - distance


def house_matrices(own: Tables, options: HousEOptions, relation: int, block: int) -> dict[str, Doubles]:
    """What a relation does to a block of coordinates: the rotation, and the projections of the two sides."""
    width, blocks = options.block, options.dimension // options.block

    def without(axis: Doubles, share: float) -> Doubles:
        return np.eye(width) - share * np.outer(axis, axis) / (axis @ axis)

    def axis(row: Doubles, number: int) -> Doubles:
        start = number * options.dimension + block * width
        return row[start : start + width]

    found = {"rotation": np.eye(width), "head": np.eye(width), "tail": np.eye(width)}
    for number in range(options.reflections):
        found["rotation"] = without(axis(own["reflection"][relation], number), 2.0) @ found["rotation"]
    for side, row in (("tail", relation), ("head", len(own["reflection"]) + relation)):
        for number in range(options.projections):
            scale = own["scale"][row][number * blocks + block]
            share = min(own["direction"][row][number] * abs(scale), options.threshold)
            found[side] = without(axis(own["axis"][row], number), share) @ found[side]
    return found


def _house(own: Tables, options: HousEOptions, side: Side, head: int, relation: int, tail: int) -> float:
    distance = 0.0
    for block in range(options.dimension // options.block):
        part = slice(block * options.block, (block + 1) * options.block)
        does = house_matrices(own, options, relation, block)
        moved = does["rotation"] @ does["head"] @ own["entity"][head][part]
        distance += math.sqrt(sum((moved - does["tail"] @ own["entity"][tail][part]) ** 2))
    return options.gamma - distance


def _tucker(own: Tables, options: TuckEROptions, side: Side, head: int, relation: int, tail: int) -> float:
    given, answer = (head, tail) if side == "tail" else (tail, head)

    def normalised(values: Sequence[float], name: str) -> list[float]:
        parts = (own[f"{name}.{part}"] for part in ("mean", "variance", "scale", "shift"))
        return [(x - m) / math.sqrt(v + 1e-5) * w + b for x, m, v, w, b in zip(values, *parts, strict=True)]

    known = normalised(own["entity"][given], "input_norm")
    query = [0.0] * options.dimension
    for k in range(options.relation_dimension):
        for i in range(options.dimension):
            for j in range(options.dimension):
                asked, other = (j, i) if side == "tail" else (i, j)
                query[asked] += own["core"][k, i, j] * own["relation"][relation][k] * known[other]
    return sum(q * e for q, e in zip(normalised(query, "output_norm"), own["entity"][answer], strict=True))


_SCORES: dict[str, Callable[..., float]] = {
    "TransE": _transe,
    "DistMult": _distmult,
    "ComplEx": _complex,
    "RotatE": _rotate,
    "HousE": _house,
    "TuckER": _tucker,
}
