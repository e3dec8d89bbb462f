"""Models as GraphVite's ``save_model`` writes them: a pickled EasyDict. GraphVite needs CUDA and is not on PyPI."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np


@contextmanager
def easydict() -> Iterator[Any]:
    """The class EasyDict, importable as in the package: a dictionary whose items are attributes too."""

    class EasyDict(dict[str, Any]):
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            super().__setitem__(name, value)

        __setitem__ = __setattr__

    EasyDict.__module__, EasyDict.__qualname__ = "easydict", "EasyDict"
    module = ModuleType("easydict")
    module.EasyDict = EasyDict  # type: ignore[attr-defined]
    kept, sys.modules["easydict"] = sys.modules.get("easydict"), module
    try:
        yield EasyDict
    finally:
        del sys.modules["easydict"]
        sys.modules |= {"easydict": kept} if kept else {}


def save_graphvite(
    path: Path,
    entities: Any,
    relations: Any,
    names: Sequence[Sequence[str]],
    protocol: int = pickle.HIGHEST_PROTOCOL,
    *,
    model: str | None = None,
    change: Callable[[Any], Any] = lambda saved: None,
) -> Path:
    """Write a file; with the name of the model as if with hyperparameters. ``change`` edits what is saved."""
    with easydict() as EasyDict:
        saved = EasyDict()
        saved.graph, saved.solver = EasyDict(), EasyDict()
        for kind, listed, table in zip(("entity", "relation"), names, (entities, relations), strict=True):
            setattr(saved.graph, f"{kind}2id", {name: index for index, name in enumerate(listed)})
            setattr(saved.graph, f"id2{kind}", list(listed))
            setattr(saved.solver, f"{kind}_embeddings", np.asarray(table, dtype=np.float32))
        if model is not None:
            saved.solver.model, saved.solver.num_partition = model, 4
        change(saved)
        path.write_bytes(pickle.dumps(saved, protocol=protocol))
    return path
