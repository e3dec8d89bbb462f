"""A trained model by its path: a checkpoint, or the directory of a run. Nothing heavy is loaded until one is opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kgprobe.errors import DataError, UsageError
from kgprobe.predict import Model, Opening
from kgprobe.predict.sources.arrays import open_arrays
from kgprobe.predict.sources.open import Source, register
from kgprobe.train.run import names


def is_trained(path: Path) -> bool:
    """Whether a path is that of a run, or of a file of tensors that belongs to one.

    Example:
        >>> is_trained(Path("no such file.safetensors"))
        False
    """
    if path.is_dir():
        return all((path / name).is_file() for name in (names.SETTINGS, names.ENVIRONMENT))
    return path.suffix == ".safetensors" and path.is_file() and "kind" in _header(path)


def open_trained(path: Path, opening: Opening) -> Model:
    """The model of a checkpoint; of a run, that of its first seed where it is the best by its first target.

    Raises:
        DataError: The file is damaged, is no checkpoint, or has learned another graph.
        UsageError: torch or safetensors is not installed.
    """
    try:
        from kgprobe.train.run.opening import checkpoint_of_run, open_checkpoint
    except ModuleNotFoundError as error:
        raise UsageError(f"{path}: it needs {error.name}", remedy="pip install 'kgprobe[models]'") from None
    checkpoint = checkpoint_of_run(path) if path.is_dir() else path
    return open_checkpoint(checkpoint, opening.graph, other_test=opening.other_test)


def register_trained() -> None:
    """Let trained models be opened by their paths."""
    what = "a run of 'kgprobe train', or a checkpoint in its folder 'best' or 'snapshots'"
    register(Source(what, is_trained, open_trained))


def _header(path: Path) -> Any:
    try:
        header = json.loads(open_arrays(path).header or "null")
    except (DataError, ValueError):
        return ()
    return header if isinstance(header, dict) else ()
