"""Models that are fitted to the tensor of the training facts by alternating least squares: in seconds, on any CPU."""

from kgprobe.models.least_squares.cp import CP, fit_cp
from kgprobe.models.least_squares.rescal import Rescal, fit_rescal

__all__ = ["CP", "Rescal", "fit_cp", "fit_rescal"]
