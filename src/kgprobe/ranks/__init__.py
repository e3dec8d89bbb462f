"""The rank table that all parts share: schema, checks, Parquet files, importers."""

from kgprobe.ranks.intervals import End, refuse_intervals
from kgprobe.ranks.join import concatenate, merge_seeds
from kgprobe.ranks.parquet import RankFile, read_ranks, validate
from kgprobe.ranks.schema import RanksInfo
from kgprobe.ranks.table import Ranks

__all__ = [
    "End",
    "RankFile",
    "Ranks",
    "RanksInfo",
    "concatenate",
    "merge_seeds",
    "read_ranks",
    "refuse_intervals",
    "validate",
]
