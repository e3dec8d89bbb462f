"""Is the difference real? Models lined up on the same queries, intervals, tests, decisions and an audit."""

from kgprobe.compare.lineup import Clusters, Lineup, line_up, named_files

__all__ = ["Clusters", "Lineup", "line_up", "named_files"]
