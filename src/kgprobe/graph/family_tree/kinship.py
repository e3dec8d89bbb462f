"""All facts that follow from who is whose parent and who is married to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    from scipy.sparse import csr_array

    from kgprobe.graph.family_tree.people import People

    _Pairs = csr_array[np.bool_, tuple[int, int]]

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
"""Name of the relation, the pairs (head, tail) that it is made of, and who may be its head."""

RELATIONS = tuple(name for name, _, _ in _RULES)
"""Names of the 23 relations in id order; each says what the head is to the tail: (h, fatherOf, t)."""


def facts(people: People) -> npt.NDArray[np.int32]:
    """Everything that is true of these people, as distinct triples sorted by relation, head, tail.

    A sibling shares a parent; aunts and uncles are the siblings of a parent, by blood only; cousins are the
    children of aunts and uncles.

    Example:
        >>> from kgprobe.graph.family_tree import grow_people
        >>> triples = facts(grow_people(trees=1, people_per_tree=2, seed=4))
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
    """The pairs that the rules are about, as matrices with True at [head, tail], sorted."""
    born, married = np.flatnonzero(people.father >= 0), np.flatnonzero(people.spouse >= 0)
    parents = np.concatenate([people.father[born], people.mother[born]])
    parent = _pairs(parents, np.concatenate([born, born]), len(people))
    child = parent.T.tocsr()
    # Products of matrices of booleans are joins: True where at least one person stands between the two.
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
    # SciPy takes long to import, and whoever only loads other graphs does not need it.
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(head), dtype=np.bool_), (head, tail)), shape=(size, size))
