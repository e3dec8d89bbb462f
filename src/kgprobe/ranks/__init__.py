"""Rank tables: schema, validation, Parquet files, importers."""

from kgprobe.ranks.metadata import (
    Assumption,
    Basis,
    CandidatesInfo,
    CheckpointInfo,
    ImportInfo,
    ListsInfo,
    RanksInfo,
    SampleInfo,
    TrainingInfo,
    UnmatchedAnswer,
    Verification,
    WorldInfo,
)
from kgprobe.ranks.rank_files import (
    End,
    RankFile,
    RanksLike,
    open_ranks,
    read_ranks,
    refuse_estimates,
    refuse_intervals,
    validate,
)
from kgprobe.ranks.table import Ranks, concatenate, merge_seeds

__all__ = [
    "Assumption",
    "Basis",
    "CandidatesInfo",
    "CheckpointInfo",
    "End",
    "ImportInfo",
    "ListsInfo",
    "RankFile",
    "Ranks",
    "RanksInfo",
    "RanksLike",
    "SampleInfo",
    "TrainingInfo",
    "UnmatchedAnswer",
    "Verification",
    "WorldInfo",
    "concatenate",
    "merge_seeds",
    "open_ranks",
    "read_ranks",
    "refuse_estimates",
    "refuse_intervals",
    "validate",
]
