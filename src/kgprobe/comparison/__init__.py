"""Compare models on the same queries: confidence intervals and paired significance tests."""

from kgprobe.comparison.lineup import Clusters, Lineup, line_up, named_files
from kgprobe.comparison.model_comparison import compare_models

__all__ = ["Clusters", "Lineup", "compare_models", "line_up", "named_files"]
