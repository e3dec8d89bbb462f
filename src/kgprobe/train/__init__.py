"""Training: models learn the triples of a graph, and the best checkpoint of every selection metric is kept."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgprobe.models.rules.explanations import Answers
    from kgprobe.train.fitting import Fitted, fit
    from kgprobe.train.trained_models import explain

# Loaded when first used, so that settings can be read where torch is not installed.
_LAZY = {
    "kgprobe.models.rules.explanations": ("Answers",),
    "kgprobe.train.fitting": ("Fitted", "fit"),
    "kgprobe.train.trained_models": ("explain",),
}


def __getattr__(name: str) -> object:
    for module, names in _LAZY.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Answers", "Fitted", "explain", "fit"]
