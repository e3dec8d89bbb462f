"""The rank table that all parts share: schema, checks, Parquet files, importers."""

from kgprobe.ranks.parquet import RankFile, read_ranks, validate
from kgprobe.ranks.schema import RanksInfo
from kgprobe.ranks.table import Ranks, concatenate, merge_seeds

__all__ = ["RankFile", "Ranks", "RanksInfo", "concatenate", "merge_seeds", "read_ranks", "validate"]
