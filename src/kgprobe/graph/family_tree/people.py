"""Grow family trees: people with parents, spouses and children."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from kgprobe.errors import UsageError

if TYPE_CHECKING:
    from numpy.random import Generator

MAX_DEPTH = 3
"""Largest difference between two levels of one tree."""

MAX_CHILDREN = 20
"""Most children of one couple."""

_MOST_PEOPLE = 2**31 - 1

_Ids: TypeAlias = npt.NDArray[np.int32]
_Slots: TypeAlias = npt.NDArray[np.int64]
_Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class People:
    """The people of some family trees, one row each, tree after tree, in the order in which they joined.

    Attributes:
        father: Row of the father, -1 where the tree does not know the parents.
        mother: Row of the mother, known exactly where the father is.
        spouse: Row of the husband or wife, -1 where there is none.
        female: Whether the person is a woman.
        tree: Number of the person's tree.
        level: Generation as growth counts it: 0 for the tree's first person, larger for later generations;
            who was added as a spouse is one further down than the partner (see `grow_people`).

    Example:
        >>> people = grow_people(trees=2, people_per_tree=10)
        >>> len(people), int(people.tree[-1]), bool(people.female[people.mother[people.mother >= 0]].all())
        (21, 1, True)
    """

    father: _Ids
    mother: _Ids
    spouse: _Ids
    female: _Flags
    tree: _Ids
    level: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.father)


def grow_people(trees: int = 20, people_per_tree: int = 300, seed: int | Generator = 0) -> People:
    """Grow separate trees until each has ``people_per_tree`` people, or one more where a pair came last.

    Each tree starts with one person. Again and again, one of its people is picked at random and gets two
    married parents or a child, for which a spouse is added first if the person is single. Parents are allowed
    where there are none, a child where the couple has fewer than `MAX_CHILDREN`, and both only where the levels
    of the tree then differ by at most `MAX_DEPTH`. Where both are allowed, a coin decides.

    A spouse counts as one level below the partner. So it is in the published graph, whose lines of ancestors
    are therefore up to MAX_DEPTH + 1 steps long; without it there would be a fifth more facts.

    All trees take each step together: the work in Python is that of one tree, however many there are.

    Args:
        trees: Number of trees.
        people_per_tree: People of a tree at which it stops growing, at least 2.
        seed: Seed, or the generator to draw from.

    Raises:
        UsageError: The numbers make no sense; all that is wrong is listed.

    Example:
        >>> people = grow_people(trees=1, people_per_tree=2, seed=4)
        >>> len(people), int((people.father >= 0).sum()), int((people.spouse >= 0).sum())
        (3, 1, 2)
    """
    problems = growth_problems(trees, people_per_tree, 0 if isinstance(seed, np.random.Generator) else seed)
    if problems:
        raise UsageError("no family trees can be grown", problems)
    # PCG64 by name, because the default generator of a later NumPy may draw other numbers from the same seed.
    rng = seed if isinstance(seed, np.random.Generator) else np.random.Generator(np.random.PCG64(seed))
    forest = _Forest(int(trees), int(people_per_tree) + 1, rng)
    growing = np.arange(trees)
    while growing.size:
        forest.step(growing)
        growing = growing[forest.size[growing] < people_per_tree]
    return forest.people()


def growth_problems(trees: int, people_per_tree: int, seed: int) -> list[str]:
    """What keeps trees of that number and size from being grown, one line each.

    Example:
        >>> growth_problems(trees=20, people_per_tree=300, seed=-1)
        ['seed is -1, expected a whole number of at least 0']
    """
    given = (("trees", trees, 1), ("people_per_tree", people_per_tree, 2), ("seed", seed, 0))
    problems = [
        f"{name} is {value!r}, expected a whole number of at least {least}"
        for name, value, least in given
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least
    ]
    if not problems and int(trees) * (int(people_per_tree) + 1) > _MOST_PEOPLE:
        problems.append(f"{trees:,} trees of {people_per_tree:,} people are more than {_MOST_PEOPLE:,} people")
    return problems


class _Forest:
    """Trees that grow side by side; the people of tree t are the slots from t * capacity, size[t] of them."""

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

    def step(self, tree: _Slots) -> None:
        """Pick one person in each of these trees, who gets parents or a child where that is allowed."""
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

    def _add_parents(self, tree: _Slots, child: _Slots) -> None:
        level = self.level[child] - np.int8(1)
        father = self._join(tree, level, np.zeros(len(tree), dtype=np.bool_))
        mother = self._join(tree, level, np.ones(len(tree), dtype=np.bool_))
        self._marry(father, mother)
        self._bear(father, mother, child)

    def _add_child(self, tree: _Slots, parent: _Slots, female: _Flags) -> None:
        below = self.level[parent] + np.int8(1)
        single = self.spouse[parent] < 0
        self._marry(parent[single], self._join(tree[single], below[single], ~self.female[parent[single]]))
        other = self.spouse[parent].astype(np.int64)
        child = self._join(tree, below, female)
        is_mother = self.female[parent]
        self._bear(np.where(is_mother, other, parent), np.where(is_mother, parent, other), child)

    def _join(self, tree: _Slots, level: npt.NDArray[np.int8], female: _Flags) -> _Slots:
        """One new person in each of these trees, all different; returns their slots."""
        slot = tree * self.capacity + self.size[tree]
        self.size[tree] += 1
        self.female[slot] = female
        self.level[slot] = level
        self.low[tree] = np.minimum(self.low[tree], level)
        self.high[tree] = np.maximum(self.high[tree], level)
        return slot

    def _marry(self, one: _Slots, other: _Slots) -> None:
        self.spouse[one] = other
        self.spouse[other] = one

    def _bear(self, father: _Slots, mother: _Slots, child: _Slots) -> None:
        self.father[child] = father
        self.mother[child] = mother
        self.children[father] += 1
        self.children[mother] += 1

    def people(self) -> People:
        """The slots in use, closed up."""
        trees = np.arange(len(self.size), dtype=np.int32)
        used = np.flatnonzero((np.arange(self.capacity) < self.size[:, None]).ravel())
        row = np.full(len(self.father) + 1, -1, dtype=np.int32)
        row[used] = np.arange(len(used), dtype=np.int32)
        # Nobody is slot -1, which is the last entry of the table of rows, and that stays -1.
        return People(
            father=row[self.father[used]],
            mother=row[self.mother[used]],
            spouse=row[self.spouse[used]],
            female=self.female[used],
            tree=np.repeat(trees, self.size),
            level=self.level[used],
        )
