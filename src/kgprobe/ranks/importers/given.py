"""What the user says beside the files: the graph or its size, and facts for the metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgprobe.errors import UsageError, nearest
from kgprobe.graph import SPLITS

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph


@dataclass(frozen=True)
class Given:
    """The circumstances of an import, checked when they are put together.

    Attributes:
        graph: The graph whose queries were ranked; gives popularity, labels and what was filtered.
        entities: Its number of entities, where the graph itself is not at hand.
        model: What reports call the model.
        split: The split that was ranked.
        seed: The training run of a single file.
        files: How many files are imported together.

    Example:
        >>> Given(entities=135).num_entities
        135
    """

    graph: KnowledgeGraph | None = None
    entities: int | None = None
    model: str | None = None
    split: str | None = None
    seed: int | None = None
    files: int = 1

    def __post_init__(self) -> None:
        problems = option_problems(
            has_graph=self.graph is not None,
            entities=self.entities,
            split=self.split,
            seed=self.seed,
            files=self.files,
        )
        if problems:
            raise UsageError("this cannot be imported as asked", problems)

    @property
    def num_entities(self) -> int | None:
        """The number of entities, if anything says it."""
        return self.entities if self.graph is None else self.graph.num_entities


def option_problems(
    *, has_graph: bool, entities: int | None, split: str | None, seed: int | None, files: int
) -> list[str]:
    """What makes no sense about the circumstances, all of it, without looking at any file.

    Example:
        >>> option_problems(has_graph=True, entities=9, split="tset", seed=None, files=1)
        ['both a graph and a number of entities are given: the graph has its own', "no split is called 'tset'; ...]
    """
    problems = []
    if has_graph and entities is not None:
        problems.append("both a graph and a number of entities are given: the graph has its own")
    if entities is not None and entities < 1:
        problems.append(f"{entities} entities: a graph has at least 1")
    if split is not None and split not in SPLITS:
        problems.append(f"no split is called {split!r}{nearest(split, SPLITS)}")
    if seed is not None and files > 1:
        problems.append(f"one seed for {files} files: several files are several seeds, numbered by their names")
    return problems
