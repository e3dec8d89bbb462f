"""Step 2, transformation: a rank becomes a score. Transformers are values with parameters."""

from kgprobe.transform.base import Floats, Transformer
from kgprobe.transform.hits import Hits
from kgprobe.transform.identity import Identity
from kgprobe.transform.logarithm import InverseLog, Log
from kgprobe.transform.power import AffinePower, Power

__all__ = ["AffinePower", "Floats", "Hits", "Identity", "InverseLog", "Log", "Power", "Transformer"]
