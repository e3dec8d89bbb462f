"""Named metrics: transformer, aggregator and declared facts, parsed from one grammar."""

from kgprobe.metrics.accumulator import RankAccumulator
from kgprobe.metrics.base import Metric
from kgprobe.metrics.catalogue import METRICS, parse, parse_all
from kgprobe.metrics.evaluate import evaluate, scores
from kgprobe.metrics.scores import Score

__all__ = ["METRICS", "Metric", "RankAccumulator", "Score", "evaluate", "parse", "parse_all", "scores"]
