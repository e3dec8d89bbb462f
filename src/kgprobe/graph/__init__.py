"""Knowledge graphs: triples by split, readers and writers, popularity, known answers, statistics."""

from kgprobe.graph.graph_statistics import statistics
from kgprobe.graph.knowledge_graph import KnowledgeGraph
from kgprobe.graph.known_answers import KnownAnswers
from kgprobe.graph.load import GraphLike, as_graph, load_graph
from kgprobe.graph.popularity import Popularity, TrainCounts
from kgprobe.graph.triple_sources import SPLITS

__all__ = [
    "SPLITS",
    "GraphLike",
    "KnowledgeGraph",
    "KnownAnswers",
    "Popularity",
    "TrainCounts",
    "as_graph",
    "load_graph",
    "statistics",
]
