"""Weights of a PyKEEN model in a file, and back in a model: tensors only, never a pickled object."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgprobe.errors import DataError, UsageError

if TYPE_CHECKING:
    from pykeen.models import Model
    from torch import Tensor

STATE_FILES = ("model_state.pt", "state_dict.pt", "model.safetensors")
_TRAINING_ONLY = {"loss", "regularizer", "weight_regularizers"}
"""Parts of a model that take no part in its scores, so that their settings need not be known."""


def scoring_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a state dict that scores depend on.

    Example:
        >>> list(scoring_state({"entity_representations.0.regularizer.weight": 0, "interaction.core_tensor": 1}))
        ['interaction.core_tensor']
    """
    return {name: tensor for name, tensor in state.items() if not _TRAINING_ONLY & set(name.split("."))}


def read_state(path: Path) -> dict[str, Tensor]:
    """The state dict in a file.

    Raises:
        DataError: The file is truncated, or holds anything but tensors by name.
    """
    import torch

    if path.suffix == ".safetensors" and find_spec("safetensors") is None:
        raise UsageError(f"{path.name} needs safetensors", remedy="pip install 'kgprobe[models]'")
    try:
        state: Any = _load_safetensors(path) if path.suffix == ".safetensors" else _load_tensors(path)
    except Exception as error:  # torch and safetensors have no common error for a damaged file
        raise _bad_weights(path, [_said(error)]) from None
    if not isinstance(state, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in state.values()):
        raise _bad_weights(path, ["it does not hold tensors by name"])
    return state


def load_weights(model: Model, path: Path) -> None:
    """Put the weights in a file into a model.

    Raises:
        DataError: They are not the weights of such a model; every difference is named.
    """
    wanted, found = scoring_state(model.state_dict()), scoring_state(read_state(path))
    problems = [f"{name} is missing" for name in wanted if name not in found]
    problems += [f"{name} is not part of such a model" for name in found if name not in wanted]
    problems += [
        f"{name} has the shape {list(found[name].shape)}, expected {list(tensor.shape)}"
        for name, tensor in wanted.items()
        if name in found and found[name].shape != tensor.shape
    ]
    if problems:
        title = f"{path}: not the weights of this {type(model).__name__} model"
        raise DataError(title, problems, "the settings must be those with which the model was made")
    model.load_state_dict(found, strict=False)


def _load_tensors(path: Path) -> Any:
    import torch

    with warnings.catch_warnings(action="ignore"):  # about files that are then refused with a better reason
        return torch.load(path, map_location="cpu", weights_only=True)


def _load_safetensors(path: Path) -> Any:
    from safetensors.torch import load_file

    return load_file(path)


def _said(error: Exception) -> str:
    text = str(error)
    if "Unsupported operand" in text:
        return "it is a kind of pickle that cannot be loaded safely, such as PyKEEN's model.save_state writes"
    if "weights_only" in text:
        return "it holds Python objects, which are not loaded"
    return (text.splitlines() or [type(error).__name__])[0]


def _bad_weights(path: Path, problems: list[str]) -> DataError:
    return DataError(
        f"{path}: not the weights of a model",
        problems,
        f"save them by torch.save(model.state_dict(), '{STATE_FILES[0]}')",
    )
