"""Checkpoints and packages as LibKGE saves them, which is not on PyPI, so that they are written here after its source.

The weights are the state of torch modules that are nested and named as in LibKGE; the configuration is an object of a
class that is pickled as ``kge.config.Config``. Its module exists only while a file is written, so that reading cannot
import it. The formulas are those of the classes in ``kge/model``, in float64.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Score = Callable[[Floats, Floats, Floats], Floats]


def _halves(rows: Floats) -> tuple[Floats, Floats]:
    return rows[..., : rows.shape[-1] // 2], rows[..., rows.shape[-1] // 2 :]


def _norm(rows: Floats, p: float) -> Floats:
    return np.abs(rows).sum(-1) if p == 1 else np.sqrt((rows**2).sum(-1))


def _complex(h: Floats, r: Floats, t: Floats) -> Floats:
    (a, b), (c, d), (e, f) = _halves(h), _halves(r), _halves(t)
    return (a * c * e + b * c * f + a * d * f - b * d * e).sum(-1)


def _transe(p: float) -> Score:
    return lambda h, r, t: -_norm(h + r - t, p)


def _rotate(p: float) -> Score:
    def score(h: Floats, r: Floats, t: Floats) -> Floats:
        (a, b), (c, d) = _halves(h), _halves(t)
        real, imaginary = a * np.cos(r) - b * np.sin(r) - c, a * np.sin(r) + b * np.cos(r) - d
        return -_norm(np.sqrt(real**2 + imaginary**2), p)

    return score


def _transh(h: Floats, r: Floats, t: Floats) -> Floats:
    translation, normal = _halves(r)
    unit = normal / np.sqrt((normal**2).sum(-1, keepdims=True))

    def on_plane(rows: Floats) -> Floats:
        return rows - (rows * unit).sum(-1, keepdims=True) * unit

    return -_norm(on_plane(h) + translation - on_plane(t), 2)


def _cp(h: Floats, r: Floats, t: Floats) -> Floats:
    return (_halves(h)[0] * r * _halves(t)[1]).sum(-1)


def _simple(h: Floats, r: Floats, t: Floats) -> Floats:
    (a, b), (c, d), (e, f) = _halves(h), _halves(r), _halves(t)
    return ((a * c * f).sum(-1) + (b * d * e).sum(-1)) / 2


def _rescal(h: Floats, r: Floats, t: Floats) -> Floats:
    matrices = r.reshape(*r.shape[:-1], h.shape[-1], h.shape[-1])
    return (h[..., :, None] * matrices * t[..., None, :]).sum((-1, -2))


FORMULAS: dict[str, Score] = {
    "complex": _complex,
    "distmult": lambda h, r, t: (h * r * t).sum(-1),
    "transe": _transe(1),
    "transe l_norm 2": _transe(2),
    "rotate": _rotate(1),
    "rotate l_norm 2": _rotate(2),
    "transh": _transh,
    "cp": _cp,
    "simple": _simple,
    "rescal": _rescal,
    "relational_tucker3": _rescal,
}
"""The scores of triples by each model: embeddings of heads, relations and tails, along the last axis."""

CLASSES = {
    "complex": "ComplEx",
    "distmult": "DistMult",
    "transe": "TransE",
    "rotate": "RotatE",
    "transh": "TransH",
    "cp": "CP",
    "simple": "SimplE",
    "rescal": "Rescal",
    "relational_tucker3": "RelationalTucker3",
    "conve": "ConvE",
    "transformer": "Transformer",
}
_WIDTHS: dict[str, Callable[[int], int]] = {
    "rotate": lambda d: d // 2,
    "cp": lambda d: d // 2,
    "rescal": lambda d: d * d,
    "transh": lambda d: 2 * d,
}


class _Module(torch.nn.Module):
    """A module with these parts."""

    def __init__(self, **parts: torch.nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


def _lookup(rows: Floats, table: str = "_embeddings") -> torch.nn.Module:
    return _Module(**{table: torch.nn.Embedding.from_pretrained(torch.tensor(rows, dtype=torch.float32), freeze=False)})


def _projection(rows: Floats, matrix: Floats) -> torch.nn.Module:
    linear = torch.nn.Linear(matrix.shape[1], matrix.shape[0], bias=False)
    linear.weight.data = torch.tensor(matrix, dtype=torch.float32)
    return _Module(base_embedder=_lookup(rows), projection=linear)


def _drawn(draw: np.random.Generator, kind: str, *shapes: tuple[int, int]) -> Iterator[Floats]:
    """Multiples of 1/4, so that sums are exact, and some scores tie; roots and angles would break ties at random."""
    for shape in shapes:
        exact = kind not in ("rotate", "transh")
        yield draw.integers(-8, 9, shape) / 4 if exact else draw.normal(size=shape).astype(np.float32).astype(float)


class SavedModel:
    """A model with random embeddings: its files, and the scores of its formula.

    Attributes:
        entities: The embeddings of the entities, computed in float64.
        relations: Those of the relations; of a reciprocal model two for each, in the order of LibKGE.
        module: The modules of LibKGE's model.
        options: Its configuration.
    """

    def __init__(
        self,
        name: str,
        entities: int,
        relations: int,
        *,
        dimension: int = 8,
        reciprocal: bool = False,
        projected: bool = False,
        table: str = "_embeddings",
        seed: int = 0,
    ) -> None:
        self.name, self.reciprocal, self.num_relations = name, reciprocal, relations
        kind = name.split()[0]
        draw = np.random.default_rng(seed)
        rows = 2 * relations if reciprocal else relations
        width = _WIDTHS.get(kind, lambda d: d)(dimension)
        self.entities, self.relations = _drawn(draw, kind, (entities, dimension), (rows, width))
        entity, relation = _lookup(self.entities, table), _lookup(self.relations, table)
        if kind == "relational_tucker3":
            core = draw.integers(-4, 5, (dimension * dimension, dimension - 1)) / 4
            base = draw.integers(-4, 5, (rows, dimension - 1)) / 4
            self.relations, relation = base @ core.T, _projection(base, core)
        if projected:
            matrix, base = draw.integers(-4, 5, (dimension, 5)) / 4, draw.integers(-4, 5, (entities, 5)) / 4
            self.entities, entity = base @ matrix.T, _projection(base, matrix)
        embedders = {"_entity_embedder": entity, "_relation_embedder": relation}
        self.module = _Module(**({"_base_model": _Module(**embedders)} if reciprocal else {}), **embedders)
        self.options = _options(kind, dimension, name.endswith("l_norm 2"), reciprocal, projected)

    def scores(self) -> Floats:
        """The scores of the queries for all heads (0) and all tails (1): [2, given, relation, answer]."""
        score, rows = FORMULAS[self.name], self.entities
        forward, inverse = self.relations[: self.num_relations], self.relations[-self.num_relations :]
        tails = score(rows[:, None, None], forward[None, :, None], rows[None, None, :])
        if self.reciprocal:
            return np.stack([score(rows[:, None, None], inverse[None, :, None], rows[None, None, :]), tails])
        return np.stack([tails.transpose(2, 1, 0), tails])


def _options(kind: str, dimension: int, second: bool, reciprocal: bool, projected: bool) -> dict[str, Any]:
    """The configuration of LibKGE: options of the model, and defaults of the types that it names."""
    lookup = {"class_name": "LookupEmbedder", "dim": 100, "normalize": {"p": -1.0}, "round_dim_to": [], "sparse": False}
    entity: dict[str, Any] = {"type": "projection_embedder" if projected else "lookup_embedder"}
    relation: dict[str, Any] = {"type": "lookup_embedder"}
    if kind == "relational_tucker3":
        relation = {"type": "tucker3_relation_embedder", "base_embedder": {}, "dim": -1}
    options: dict[str, Any] = {
        "import": [kind, "lookup_embedder"],
        "model": kind,
        "job": {"type": "train", "device": "cuda:0"},
        "dataset": {"name": "people", "files": {"train": {"filename": "train.del", "type": "triples"}}},
        "lookup_embedder": lookup,
        "projection_embedder": {"class_name": "ProjectionEmbedder", "base_embedder": {"type": "lookup_embedder"}},
        "tucker3_relation_embedder": {"class_name": "Tucker3RelationEmbedder", "dim": -1},
        kind: {
            "class_name": CLASSES[kind],
            "entity_embedder": {**entity, "dim": dimension, "+++": "+++"},
            "relation_embedder": {**relation, "+++": "+++"},
            **({"l_norm": 2.0 if second or kind == "transh" else 1.0} if kind[:5] in ("trans", "rotat") else {}),
        },
    }
    if reciprocal:
        options["model"] = "reciprocal_relations_model"
        options["reciprocal_relations_model"] = {"class_name": "ReciprocalRelationsModel", "base_model": {"type": kind}}
    return options


@contextmanager
def libkge_modules() -> Iterator[Any]:
    """LibKGE's class of configurations, importable as in the library."""
    package, module = ModuleType("kge"), ModuleType("kge.config")

    class Config:
        def __init__(self, folder: str | None = None) -> None:
            self.options: dict[str, Any] = {}
            self.folder = folder
            self.log_folder: str | None = None
            self.log_prefix: str | None = None

    Config.__module__, Config.__qualname__ = "kge.config", "Config"
    module.Config = package.Config = Config  # type: ignore[attr-defined]
    sys.modules |= {"kge": package, "kge.config": module}
    try:
        yield Config
    finally:
        del sys.modules["kge"], sys.modules["kge.config"]


def content(model: SavedModel, names: tuple[Sequence[str], Sequence[str]] | None = None) -> dict[str, Any]:
    """What a checkpoint holds after training, or a package, which has names; call it with `libkge_modules`."""
    trace = {"epoch": 50, "event": "eval_completed", "mean_reciprocal_rank_filtered": 0.34, "torch": torch.__version__}
    config = sys.modules["kge.config"].Config("local/experiments/run")
    config.options = model.options
    saved = {
        "type": "train" if names is None else "package",
        "epoch": 50,
        "valid_trace": [trace | {"metric": np.float64(0.25), "hits": list(range(3))}],
        "model": (model.module.state_dict(), {"train_job_trace_entry": trace, "train_config": config}),
        "job_id": "5ae4ae7e-2c8c-4a5d-9f0a-8b1b2a1a3c4d",
        "config": config,
        "dataset": {"num_entities": len(model.entities), "num_relations": model.num_relations},
    }
    if names is not None:
        saved["dataset"]["meta"] = dict(zip(("entity_ids", "relation_ids"), map(list, names), strict=True))
        return saved
    optimiser = torch.optim.Adagrad(model.module.parameters(), lr=0.2)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimiser, mode="max", factor=0.95)
    return saved | {"optimizer_state_dict": optimiser.state_dict(), "lr_scheduler_state_dict": schedule.state_dict()}


def save(
    path: Path,
    model: SavedModel,
    names: tuple[Sequence[str], Sequence[str]] | None = None,
    *,
    change: Callable[[dict[str, Any]], Any] = lambda saved: None,
    zipped: bool = True,
) -> Path:
    """Write a checkpoint; or with names a package. ``change`` edits what is saved."""
    os.makedirs(path.parent, exist_ok=True)
    with libkge_modules():
        saved = content(model, names)
        change(saved)
        torch.save(saved, path, _use_new_zipfile_serialization=zipped)
    return path


def write_ids(path: Path, names: Sequence[str]) -> None:
    """Write names as in LibKGE's data folders."""
    os.makedirs(path.parent, exist_ok=True)
    path.write_text("".join(f"{index}\t{name}\n" for index, name in enumerate(names)), encoding="utf-8")
