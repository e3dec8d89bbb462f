"""Knowledge graphs: triples by split, readers and a writer, popularity, known answers, statistics."""

from kgprobe.graph.graph import SPLITS, KnowledgeGraph
from kgprobe.graph.known import KnownAnswers
from kgprobe.graph.load import load_graph
from kgprobe.graph.popularity import Popularity
from kgprobe.graph.stats import statistics
from kgprobe.graph.train_counts import TrainCounts
from kgprobe.graph.write import write_graph

__all__ = [
    "SPLITS",
    "KnowledgeGraph",
    "KnownAnswers",
    "Popularity",
    "TrainCounts",
    "load_graph",
    "statistics",
    "write_graph",
]
