"""Step 3, aggregation: query weights, the weighted mean of scores, groups of queries, (alpha, beta) surfaces."""

from kgprobe.aggregate.geometry import Geometry
from kgprobe.aggregate.groups import Grouping, parse_grouping, parse_groupings
from kgprobe.aggregate.surfaces import Surface, surface
from kgprobe.aggregate.weighted_mean import KeyedSums, Statistic, Sums, Tie, tied_rank, tied_score
from kgprobe.aggregate.weights import CandidateWeight, PopularityWeight, StratumWeight, Uniform, Weighting

__all__ = [
    "CandidateWeight",
    "Geometry",
    "Grouping",
    "KeyedSums",
    "PopularityWeight",
    "Statistic",
    "StratumWeight",
    "Sums",
    "Surface",
    "Tie",
    "Uniform",
    "Weighting",
    "parse_grouping",
    "parse_groupings",
    "surface",
    "tied_rank",
    "tied_score",
]
