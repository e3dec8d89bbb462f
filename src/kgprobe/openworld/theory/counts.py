"""All that the theory needs of a graph: how many answers each test query has, and how many candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.facts import Facts
from kgprobe.predict.filter import KnownFilter

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_COLUMNS: Mapping[str, Callable[[KnowledgeGraph, Ints, Ints], npt.NDArray[np.generic]]] = {
    "entity_popularity": lambda graph, target, relation: graph.popularity.entity(target),
    "relation_popularity": lambda graph, target, relation: graph.popularity.relation(relation, target),
    "relation": lambda graph, target, relation: relation,
}


@dataclass(frozen=True, eq=False)
class AnswerCounts:
    """Test queries, each by its number of known answers and of candidates.

    Attributes:
        name: The graph.
        known: The known answers of each query, the target among them.
        candidates: What the filter leaves: the target, false entities, and true ones that are missing.
        columns: What the weights of metrics depend on, by the name of the column of a rank table.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[0, 0, 2]], num_entities=5)
        >>> counts = AnswerCounts.of_graph(graph)
        >>> counts.known.tolist(), counts.candidates.tolist()
        ([2.0, 1.0], [4.0, 5.0])
    """

    name: str
    known: Floats
    candidates: Floats
    columns: Mapping[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems = [] if self.known.size else ["there is no query"]
        if self.known.shape != self.candidates.shape:
            problems.append(f"{self.known.size:,} numbers of answers, but {self.candidates.size:,} of candidates")
        too_few = {"known answers": self.known, "candidates": self.candidates}
        problems += [f"{name}: some queries have less than 1" for name, n in too_few.items() if not (n >= 1).all()]
        if problems:
            raise DataError(f"{self.name}: these are not the counts of test queries", problems)

    @classmethod
    def of_graph(
        cls, graph: KnowledgeGraph, split: str = "test", sides: str = "both", columns: Iterable[str] = ()
    ) -> AnswerCounts:
        """Count the answers that the usual filter knows for the facts of a split.

        Args:
            graph: The graph.
            split: The split.
            sides: "both", "head" or "tail".
            columns: The columns that are wanted.

        Raises:
            DataError: The split has no facts, or the training triples are absent.
        """
        facts = Facts.build(graph, split, sides)
        if graph.train_counts is not None:
            raise DataError(
                f"{graph.name}: the known answers cannot be counted",
                ["only counts of the training triples are here, not the triples"],
                "use a graph that has its training triples, or give AnswerCounts of your own",
            )
        known = KnownFilter.build(graph, None, split).known
        assert known is not None  # it has at least the split itself
        head, relation, tail = np.tile(facts.triples, (len(facts.sides), 1)).T
        on_tail = np.repeat(np.array(facts.sides) == "tail", len(facts.triples))
        others = known.others(head, relation, tail, on_tail).astype(np.float64)
        target = np.where(on_tail, tail, head)
        wanted = {name: np.asarray(_COLUMNS[name](graph, target, relation), dtype=np.float64) for name in columns}
        return cls(graph.name, others + 1, graph.num_entities - others, wanted)

    def crowded(self, rate: float, share: float = 0.1) -> float:
        """The share of the queries whose true answers are expected to be this share of the candidates, or more.

        Example:
            >>> AnswerCounts("tiny", np.array([1.0, 9.0]), np.array([100.0, 92.0])).crowded(rate=0.1)
            0.5
        """
        return float(np.mean(self.known / (1 - rate) >= share * self.candidates))
