"""Where and how scores are computed; the ranks that come of it are the same."""

from __future__ import annotations

from importlib.util import find_spec

from kgprobe.errors import UsageError
from kgprobe.predict.arithmetic.base import Arithmetic, Bounds
from kgprobe.predict.arithmetic.plain import PlainArithmetic

__all__ = ["Arithmetic", "Bounds", "arithmetic_for"]


def arithmetic_for(device: str = "cpu") -> Arithmetic:
    """The fastest arithmetic for a device that is installed.

    ``cpu`` is NumPy, with compiled loops where numba is installed; anything else is a device of torch.

    Example:
        >>> type(arithmetic_for("cpu")).__name__
        'CompiledArithmetic'
    """
    if device == "cpu":
        if find_spec("numba") is None:
            return PlainArithmetic()
        from kgprobe.predict.arithmetic.compiled import CompiledArithmetic

        return CompiledArithmetic()
    if find_spec("torch") is None:
        raise UsageError(f"the device {device!r} needs torch", remedy="pip install 'kgprobe[models]'")
    from kgprobe.predict.arithmetic.torch_ import TorchArithmetic

    return TorchArithmetic(device.removeprefix("torch:"))
