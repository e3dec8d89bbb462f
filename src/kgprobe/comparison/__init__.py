"""Are two models different? Paired tests and confidence intervals on the same queries."""

from kgprobe.comparison.lineup import Clusters, Lineup, line_up, named_files
from kgprobe.comparison.model_comparison import compare_models

__all__ = ["Clusters", "Lineup", "compare_models", "line_up", "named_files"]
