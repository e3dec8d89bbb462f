"""Rank tables: schema, validation, Parquet files, importers."""

from kgprobe.ranks.rank_files import End, RankFile, read_ranks, refuse_intervals, validate
from kgprobe.ranks.schema import RanksInfo
from kgprobe.ranks.table import Ranks, concatenate, merge_seeds

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
