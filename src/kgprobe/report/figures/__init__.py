"""Figures for print: every file draws one, `save` writes it, and the registry knows them all by name."""

from kgprobe.report.figures.all_figures import FIGURES, FigureKind, Inputs, Offer, find_figure
from kgprobe.report.figures.style import ENDINGS, ending_of, save

__all__ = ["ENDINGS", "FIGURES", "FigureKind", "Inputs", "Offer", "ending_of", "find_figure", "save"]
