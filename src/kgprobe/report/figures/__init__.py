"""Figures for publications, drawn with matplotlib."""

from kgprobe.report.figures.all_figures import FIGURES, FigureKind, Inputs, Offer, find_figure
from kgprobe.report.figures.style import ENDINGS, figure_type, save

__all__ = ["ENDINGS", "FIGURES", "FigureKind", "Inputs", "Offer", "figure_type", "find_figure", "save"]
