"""Named metrics: transformer, aggregator and declared facts, parsed from one grammar."""

from kgprobe.metrics.catalogue import METRICS, parse, parse_all
from kgprobe.metrics.evaluation import RankAccumulator, Score, evaluate, scores
from kgprobe.metrics.metric import Metric

__all__ = ["METRICS", "Metric", "RankAccumulator", "Score", "evaluate", "parse", "parse_all", "scores"]
