"""Step 3, aggregation: scores become one number, by weights, groups and sums that merge."""

from kgprobe.aggregate.geometry import Geometry
from kgprobe.aggregate.groups import Grouping, parse_grouping, parse_groupings
from kgprobe.aggregate.keyed import KeyedSums, distinct, sum_by
from kgprobe.aggregate.surface import Surface, surface
from kgprobe.aggregate.ties import Tie, tied_rank, tied_score
from kgprobe.aggregate.weights import CandidateWeight, PopularityWeight, StratumWeight, Uniform, Weighting

__all__ = [
    "CandidateWeight",
    "Geometry",
    "Grouping",
    "KeyedSums",
    "PopularityWeight",
    "StratumWeight",
    "Surface",
    "Tie",
    "Uniform",
    "Weighting",
    "distinct",
    "parse_grouping",
    "parse_groupings",
    "sum_by",
    "surface",
    "tied_rank",
    "tied_score",
]
