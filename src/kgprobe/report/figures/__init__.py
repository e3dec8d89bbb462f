"""Figures for print: every file draws one, `save` writes it, and the registry knows them all by name."""

from kgprobe.report.figures.inputs import Inputs, Offer
from kgprobe.report.figures.registry import FIGURES, FigureKind, find
from kgprobe.report.figures.save import ENDINGS, ending_of, save

__all__ = ["ENDINGS", "FIGURES", "FigureKind", "Inputs", "Offer", "ending_of", "find", "save"]
