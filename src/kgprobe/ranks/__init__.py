"""Rank tables: schema, validation, Parquet files, importers."""

from kgprobe.ranks.metadata import (
    Assumption,
    Basis,
    CandidatesInfo,
    CheckpointInfo,
    ImportInfo,
    RanksInfo,
    TrainingInfo,
    Verification,
    WorldInfo,
)
from kgprobe.ranks.rank_files import End, RankFile, read_ranks, refuse_intervals, validate
from kgprobe.ranks.table import Ranks, concatenate, merge_seeds

__all__ = [
    "Assumption",
    "Basis",
    "CandidatesInfo",
    "CheckpointInfo",
    "End",
    "ImportInfo",
    "RankFile",
    "Ranks",
    "RanksInfo",
    "TrainingInfo",
    "Verification",
    "WorldInfo",
    "concatenate",
    "merge_seeds",
    "read_ranks",
    "refuse_intervals",
    "validate",
]
