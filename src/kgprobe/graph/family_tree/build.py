"""The graph ``family-tree``: all facts of generated families, with names, in three splits."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.errors import UsageError
from kgprobe.graph.family_tree.kinship import RELATIONS, facts
from kgprobe.graph.family_tree.people import grow_people, growth_problems
from kgprobe.graph.graph import KnowledgeGraph

if TYPE_CHECKING:
    import numpy.typing as npt

    from kgprobe.graph.family_tree.people import People
    from kgprobe.graph.labels import Labels


def family_tree(
    trees: int = 20, people_per_tree: int = 300, seed: int = 0, valid: float = 0.1, test: float = 0.1
) -> KnowledgeGraph:
    """Generate family trees and split all facts about them at random.

    The same arguments give the same graph. Whatever the shares, its people are those of `grow_people` for the
    same numbers and seed.

    Args:
        trees: Number of families that have nothing to do with each other.
        people_per_tree: People of a family at which it stops growing (some get one more).
        seed: Seed of the people and of the split.
        valid: Share of the facts that goes to validation, rounded down to whole facts.
        test: Share that goes to test, rounded down; train is the rest.

    Raises:
        UsageError: The numbers make no sense; all that is wrong is listed.

    Example:
        >>> graph = family_tree(trees=2, people_per_tree=30)
        >>> graph.name, graph.num_entities, graph.num_relations, graph.entity_label([0, 60])
        ('family-tree', 61, 23, ['tree0-person00', 'tree1-person29'])
    """
    problems = growth_problems(trees, people_per_tree, seed) + _share_problems(valid, test)
    if problems:
        raise UsageError("no family-tree graph can be generated", problems)
    rng = np.random.Generator(np.random.PCG64(seed))
    people = grow_people(trees, people_per_tree, rng)
    triples = facts(people)
    triples = triples.take(rng.permutation(len(triples)), axis=0)
    triples.flags.writeable = False  # handed over as it is: the graph copies only what could still change
    num_valid, num_test = int(float(valid) * len(triples)), int(float(test) * len(triples))
    num_train = len(triples) - num_valid - num_test
    return KnowledgeGraph.from_triples(
        train=triples[:num_train],
        valid=triples[num_train : num_train + num_valid],
        test=triples[num_train + num_valid :],
        name="family-tree",
        num_entities=len(people),
        num_relations=len(RELATIONS),
        entity_labels=_names(people),
        relation_labels=RELATIONS,
    )


def _share_problems(valid: float, test: float) -> list[str]:
    problems = [
        f"{name} is {share!r}, expected a share from 0 to less than 1"
        for name, share in (("valid", valid), ("test", test))
        if not isinstance(share, Real) or not 0 <= share < 1
    ]
    if not problems and valid + test >= 1:
        problems.append(f"valid and test together are {valid + test:g}, which leaves nothing for train")
    return problems


def _names(people: People) -> Labels:
    """Names like tree03-person017, all of one length."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = np.bincount(people.tree)
    number = np.arange(len(people)) - np.repeat(np.cumsum(size) - size, size)

    def padded(numbers: npt.NDArray[np.integer], most: int) -> Labels:
        return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), len(str(most)), "0")

    tree, person = padded(people.tree, len(size) - 1), padded(number, int(size.max()) - 1)
    return pc.binary_join_element_wise(pc.binary_join_element_wise("tree", tree, ""), person, "-person")
