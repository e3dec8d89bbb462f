"""Is the difference real? Models lined up on the same queries, intervals, tests, decisions and an audit."""

from kgprobe.compare.audit import Finding, audit_files
from kgprobe.compare.bands import Bands, bands
from kgprobe.compare.comparison import compare_models
from kgprobe.compare.decision import decide, decision_map
from kgprobe.compare.lineup import Clusters, Lineup, line_up, named_files

__all__ = [
    "Bands",
    "Clusters",
    "Finding",
    "Lineup",
    "audit_files",
    "bands",
    "compare_models",
    "decide",
    "decision_map",
    "line_up",
    "named_files",
]
