"""Step 3, aggregation: scores become one number, by weights, groups and sums that merge."""

from kgprobe.aggregate.geometry import Geometry
from kgprobe.aggregate.groups import Grouping, parse_grouping, parse_groupings
from kgprobe.aggregate.surfaces import Surface, surface
from kgprobe.aggregate.weighted_mean import KeyedSums, Tie, tied_rank, tied_score
from kgprobe.aggregate.weights import CandidateWeight, PopularityWeight, StratumWeight, Uniform, Weighting
from kgprobe.arrays import distinct, sum_by

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
