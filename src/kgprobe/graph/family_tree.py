"""The built-in graph ``family-tree``: random family trees with all kinship triples that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numpy.random import PCG64, Generator

from kgprobe.arrays import Flags, Ints, spread
from kgprobe.errors import UsageError
from kgprobe.graph.knowledge_graph import KnowledgeGraph
from kgprobe.graph.names import Labels

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    _Pairs = csr_array[np.bool_, tuple[int, int]]

MAX_DEPTH = 3
"""Largest difference between two levels of one tree."""

MAX_CHILDREN = 20
"""Largest number of children of one couple."""

_MOST_PEOPLE = 2**31 - 1

_Ids: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class People:
    """The people of family trees, one row each, tree by tree, in the order in which they were added.

    Attributes:
        father: Row of the father, -1 if the parents are unknown.
        mother: Row of the mother, known exactly if the father is.
        spouse: Row of the husband or wife, -1 if there is none.
        female: Whether the person is a woman.
        tree: Number of the person's tree.
        level: Generation: 0 for the first person of the tree, larger for later generations; a spouse is one level
            below the partner (see `grow_people`).

    Example:
        >>> people = grow_people(trees=2, people_per_tree=10)
        >>> len(people), int(people.tree[-1]), bool(people.female[people.mother[people.mother >= 0]].all())
        (21, 1, True)
    """

    father: _Ids
    mother: _Ids
    spouse: _Ids
    female: Flags
    tree: _Ids
    level: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.father)


def grow_people(trees: int = 20, people_per_tree: int = 300, seed: int | Generator = 0) -> People:
    """Grow separate trees until each has ``people_per_tree`` people, or one more if a couple was added last.

    Each tree starts with one person. In each step, a random person gets either two married parents or a child; a
    spouse is added first if the person is single. Parents can be added if there are none, a child if the couple has
    fewer than `MAX_CHILDREN`, and either only if the levels of the tree then differ by at most `MAX_DEPTH`. If both
    are possible, one is chosen at random.

    A spouse counts as one level below the partner, as in the published graph. Lines of ancestors are therefore up to
    MAX_DEPTH + 1 steps long; otherwise there would be a fifth more triples.

    All trees take each step together, so the number of Python steps does not depend on the number of trees.

    Args:
        trees: Number of trees.
        people_per_tree: Number of people at which a tree stops growing, at least 2.
        seed: Seed or random generator.

    Raises:
        UsageError: An argument is out of range; all problems are listed.

    Example:
        >>> people = grow_people(trees=1, people_per_tree=2, seed=4)
        >>> len(people), int((people.father >= 0).sum()), int((people.spouse >= 0).sum())
        (3, 1, 2)
    """
    problems = growth_problems(trees, people_per_tree, 0 if isinstance(seed, Generator) else seed)
    if problems:
        raise UsageError("cannot grow these family trees", problems)
    # PCG64 by name, because a later NumPy may have another default generator.
    rng = seed if isinstance(seed, Generator) else Generator(PCG64(seed))
    forest = _Forest(int(trees), int(people_per_tree) + 1, rng)
    growing = np.arange(trees)
    while growing.size:
        forest.step(growing)
        growing = growing[forest.size[growing] < people_per_tree]
    return forest.people()


def growth_problems(trees: int, people_per_tree: int, seed: int) -> list[str]:
    """Problems of the arguments of `grow_people`.

    Example:
        >>> growth_problems(trees=20, people_per_tree=300, seed=-1)
        ['seed is -1, expected a whole number of at least 0']
    """
    arguments = (("trees", trees, 1), ("people_per_tree", people_per_tree, 2), ("seed", seed, 0))
    problems = [
        f"{name} is {value!r}, expected a whole number of at least {least}"
        for name, value, least in arguments
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least
    ]
    if not problems and int(trees) * (int(people_per_tree) + 1) > _MOST_PEOPLE:
        problems.append(f"{trees:,} trees of {people_per_tree:,} people are more than {_MOST_PEOPLE:,} people")
    return problems


class _Forest:
    """Trees that grow together; the people of tree t are size[t] slots from t * capacity on."""

    def __init__(self, trees: int, capacity: int, rng: Generator) -> None:
        slots = trees * capacity
        self.rng = rng
        self.capacity = capacity
        self.size = np.zeros(trees, dtype=np.int64)
        self.low = np.zeros(trees, dtype=np.int8)
        self.high = np.zeros(trees, dtype=np.int8)
        self.father = np.full(slots, -1, dtype=np.int32)
        self.mother = np.full(slots, -1, dtype=np.int32)
        self.spouse = np.full(slots, -1, dtype=np.int32)
        self.female = np.zeros(slots, dtype=np.bool_)
        self.level = np.zeros(slots, dtype=np.int8)
        self.children = np.zeros(slots, dtype=np.int8)
        self._join(np.arange(trees), np.zeros(trees, dtype=np.int8), rng.random(trees) < 0.5)

    def step(self, tree: Ints) -> None:
        """Add parents or a child to one random person of each of these trees, if possible."""
        person = tree * self.capacity + self.rng.integers(self.size[tree])
        coin, daughter = self.rng.random((2, len(tree))) < 0.5
        level = self.level[person]
        parents_fit = self.high[tree] - np.minimum(self.low[tree], level - 1) <= MAX_DEPTH
        child_fits = np.maximum(self.high[tree], level + 1) - self.low[tree] <= MAX_DEPTH
        may_get_parents = (self.father[person] < 0) & parents_fit
        may_get_child = (self.children[person] < MAX_CHILDREN) & child_fits
        parents = may_get_parents & (coin | ~may_get_child)
        child = may_get_child & ~parents
        self._add_parents(tree[parents], person[parents])
        self._add_child(tree[child], person[child], daughter[child])

    def _add_parents(self, tree: Ints, child: Ints) -> None:
        level = self.level[child] - np.int8(1)
        father = self._join(tree, level, np.zeros(len(tree), dtype=np.bool_))
        mother = self._join(tree, level, np.ones(len(tree), dtype=np.bool_))
        self._marry(father, mother)
        self._bear(father, mother, child)

    def _add_child(self, tree: Ints, parent: Ints, female: Flags) -> None:
        below = self.level[parent] + np.int8(1)
        single = self.spouse[parent] < 0
        self._marry(parent[single], self._join(tree[single], below[single], ~self.female[parent[single]]))
        other = self.spouse[parent].astype(np.int64)
        child = self._join(tree, below, female)
        is_mother = self.female[parent]
        self._bear(np.where(is_mother, other, parent), np.where(is_mother, parent, other), child)

    def _join(self, tree: Ints, level: npt.NDArray[np.int8], female: Flags) -> Ints:
        """Add one person to each of these trees, which are distinct; returns their slots."""
        slot = tree * self.capacity + self.size[tree]
        self.size[tree] += 1
        self.female[slot] = female
        self.level[slot] = level
        self.low[tree] = np.minimum(self.low[tree], level)
        self.high[tree] = np.maximum(self.high[tree], level)
        return slot

    def _marry(self, one: Ints, other: Ints) -> None:
        self.spouse[one] = other
        self.spouse[other] = one

    def _bear(self, father: Ints, mother: Ints, child: Ints) -> None:
        self.father[child] = father
        self.mother[child] = mother
        self.children[father] += 1
        self.children[mother] += 1

    def people(self) -> People:
        """The used slots as rows."""
        trees = np.arange(len(self.size), dtype=np.int32)
        used = np.flatnonzero((np.arange(self.capacity) < self.size[:, None]).ravel())
        row = np.full(len(self.father) + 1, -1, dtype=np.int32)
        row[used] = np.arange(len(used), dtype=np.int32)
        # Slot -1 means nobody; it is the last entry of ``row``, which stays -1.
        return People(
            father=row[self.father[used]],
            mother=row[self.mother[used]],
            spouse=row[self.spouse[used]],
            female=self.female[used],
            tree=np.repeat(trees, self.size),
            level=self.level[used],
        )


_RULES = (
    ("parentOf", "parent", "anyone"),
    ("fatherOf", "parent", "man"),
    ("motherOf", "parent", "woman"),
    ("childOf", "child", "anyone"),
    ("sonOf", "child", "man"),
    ("daughterOf", "child", "woman"),
    ("siblingOf", "sibling", "anyone"),
    ("brotherOf", "sibling", "man"),
    ("sisterOf", "sibling", "woman"),
    ("grandfatherOf", "grandparent", "man"),
    ("grandmotherOf", "grandparent", "woman"),
    ("grandchildOf", "grandchild", "anyone"),
    ("grandsonOf", "grandchild", "man"),
    ("granddaughterOf", "grandchild", "woman"),
    ("auntOf", "parent's sibling", "woman"),
    ("uncleOf", "parent's sibling", "man"),
    ("nieceOf", "sibling's child", "woman"),
    ("nephewOf", "sibling's child", "man"),
    ("cousinOf", "cousin", "anyone"),
    ("girlCousinOf", "cousin", "woman"),
    ("boyCousinOf", "cousin", "man"),
    ("husbandOf", "spouse", "man"),
    ("wifeOf", "spouse", "woman"),
)
"""Name of each relation, the kinship of its pairs (head, tail), and who can be its head."""

RELATIONS = tuple(name for name, _, _ in _RULES)
"""Names of the 23 relations in id order; (h, fatherOf, t) means that h is the father of t."""


def kinship_triples(people: People) -> npt.NDArray[np.int32]:
    """All kinship triples of these people, distinct and sorted by relation, head, tail.

    Siblings share a parent; aunts and uncles are the siblings of a parent (not by marriage); cousins are the children
    of aunts and uncles.

    Example:
        >>> triples = kinship_triples(grow_people(trees=1, people_per_tree=2, seed=4))
        >>> sorted({RELATIONS[relation] for relation in triples[:, 1]})
        ['childOf', 'fatherOf', 'husbandOf', 'motherOf', 'parentOf', 'sonOf', 'wifeOf']
    """
    kin = _kin(people)
    degrees = {name: np.diff(pairs.indptr) for name, pairs in kin.items()}
    everyone = np.ones(len(people), dtype=np.bool_)
    sexes = {"anyone": everyone, "man": ~people.female, "woman": people.female}
    ends = np.cumsum([degrees[name][sexes[sex]].sum() for _, name, sex in _RULES])
    triples = np.empty((ends[-1], 3), dtype=np.int32)
    for relation, (block, (_, name, sex)) in enumerate(zip(np.split(triples, ends[:-1]), _RULES, strict=True)):
        heads, degree = sexes[sex], degrees[name]
        block[:, 0] = np.repeat(np.flatnonzero(heads), degree[heads])
        block[:, 1] = relation
        block[:, 2] = kin[name].indices[np.repeat(heads, degree)]
    return triples


def _kin(people: People) -> dict[str, _Pairs]:
    """The pairs of each kinship as sorted sparse matrices, True at [head, tail]."""
    born, married = np.flatnonzero(people.father >= 0), np.flatnonzero(people.spouse >= 0)
    parents = np.concatenate([people.father[born], people.mother[born]])
    parent = _pairs(parents, np.concatenate([born, born]), len(people))
    child = parent.T.tocsr()
    # Products of boolean matrices are joins: True if at least one person connects the two.
    same_parent = (child @ parent).tocoo()
    other = same_parent.row != same_parent.col
    sibling = _pairs(same_parent.row[other], same_parent.col[other], len(people))
    grandparent, uncle_or_aunt = parent @ parent, sibling @ parent
    kin = {
        "parent": parent,
        "child": child,
        "sibling": sibling,
        "grandparent": grandparent,
        "grandchild": grandparent.T.tocsr(),
        "parent's sibling": uncle_or_aunt,
        "sibling's child": uncle_or_aunt.T.tocsr(),
        "cousin": child @ uncle_or_aunt,
        "spouse": _pairs(married, people.spouse[married], len(people)),
    }
    for pairs in kin.values():
        pairs.sort_indices()
    return kin


def _pairs(head: npt.NDArray[np.integer], tail: npt.NDArray[np.integer], size: int) -> _Pairs:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(head), dtype=np.bool_), (head, tail)), shape=(size, size))


def family_tree(
    trees: int = 20, people_per_tree: int = 300, seed: int = 0, valid: float = 0.1, test: float = 0.1
) -> KnowledgeGraph:
    """Generate family trees and split their kinship triples at random.

    The same arguments give the same graph. Its people are those of `grow_people` with the same arguments, whatever
    the shares.

    Args:
        trees: Number of unconnected family trees.
        people_per_tree: Number of people at which a tree stops growing (some get one more).
        seed: Seed of the people and of the split.
        valid: Share of the triples that goes to validation, rounded down.
        test: Share that goes to test, rounded down; train is the rest.

    Raises:
        UsageError: An argument is out of range; all problems are listed.

    Example:
        >>> graph = family_tree(trees=2, people_per_tree=30)
        >>> graph.name, graph.num_entities, graph.num_relations, graph.entity_label([0, 60])
        ('family-tree', 61, 23, ['tree0-person00', 'tree1-person29'])
    """
    problems = growth_problems(trees, people_per_tree, seed) + _share_problems(valid, test)
    if problems:
        raise UsageError("cannot generate this family-tree graph", problems)
    rng = Generator(PCG64(seed))
    people = grow_people(trees, people_per_tree, rng)
    triples = kinship_triples(people)
    triples = triples.take(rng.permutation(len(triples)), axis=0)
    triples.flags.writeable = False  # so that the graph does not copy it
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
        problems.append(f"valid and test together are {valid + test:g}, nothing is left for train")
    return problems


def _names(people: People) -> Labels:
    """Names like tree03-person017, all of the same length."""
    import pyarrow.compute as pc

    size = np.bincount(people.tree)
    _, number = spread(size)

    def padded(numbers: npt.NDArray[np.integer], most: int) -> Labels:
        return pc.utf8_lpad(pa.array(numbers).cast(pa.string()), len(str(most)), "0")

    tree, person = padded(people.tree, len(size) - 1), padded(number, int(size.max()) - 1)
    return pc.binary_join_element_wise(pc.binary_join_element_wise("tree", tree, ""), person, "-person")
