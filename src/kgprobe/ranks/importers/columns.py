"""Which column of a foreign table is which: named by the user, or known by one of its usual names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kgprobe.errors import nearest
from kgprobe.ranks.schema import COLUMNS

SYNONYMS: dict[str, tuple[str, ...]] = {
    "head": ("h", "subject", "subj", "s", "head_id", "head_label"),
    "relation": ("r", "rel", "predicate", "pred", "p", "relation_id", "relation_label"),
    "tail": ("t", "object", "obj", "o", "tail_id", "tail_label"),
    "side": ("predicted", "predicted_side", "direction", "target_side", "mode"),
    "rank": ("mean_rank", "realistic_rank", "realistic", "filtered_rank"),
    "ties": ("num_ties", "n_ties"),
    "worst_rank": (),
    "candidates": ("num_candidates", "n_candidates", "number_of_candidates", "number_of_options"),
    "entity_popularity": ("delta_e",),
    "relation_popularity": ("delta_r_e", "delta_r"),
    "seed": ("random_seed",),
    "optimistic": ("optimistic_rank", "best_rank"),
    "pessimistic": ("pessimistic_rank",),
    "greater": ("num_greater", "better", "num_better"),
    "equal": ("num_equal",),
    "filtered": ("num_filtered", "n_filtered", "number_of_filtered"),
}
"""The columns that a foreign table may have, with the names under which each is found unasked.

Beyond the columns of a rank table: ``optimistic`` and ``pessimistic`` ranks, or the numbers of other candidates
that scored ``greater`` than the target and ``equal`` to it, in place of rank and ties; and how many entities
were ``filtered``, in place of candidates.
"""


@dataclass(frozen=True)
class Naming:
    """What was found.

    Attributes:
        found: The source column of each canonical one.
        chosen: The canonical columns that the user named.
        problems: What is wrong with the names.
    """

    found: dict[str, str] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()
    problems: list[str] = field(default_factory=list)

    def has(self, *columns: str) -> bool:
        """Whether all these canonical columns were found."""
        return all(column in self.found for column in columns)


def mapping_problems(mapping: Mapping[str, str]) -> list[str]:
    """Columns that no rank table has, and source columns named twice.

    Example:
        >>> mapping_problems({"rnak": "position"})
        ["'rnak' is not a column of a rank table; nearest: rank"]
    """
    sources = list(mapping.values())
    problems = [
        f"{name!r} is not a column of a rank table{nearest(name, SYNONYMS)}" for name in mapping if name not in SYNONYMS
    ]
    return problems + [
        f"column {source!r} is named for several: {', '.join(c for c, s in mapping.items() if s == source)}"
        for source in dict.fromkeys(sources)
        if sources.count(source) > 1
    ]


def find_columns(names: Sequence[str], mapping: Mapping[str, str]) -> Naming:
    """Find each canonical column: where the user says, else by its own name, else by a usual one.

    Example:
        >>> find_columns(["Subject", "p", "o", "position"], {"rank": "position"}).found
        {'rank': 'position', 'head': 'Subject', 'relation': 'p', 'tail': 'o'}
    """
    found, problems = {}, mapping_problems(mapping)
    for column, source in mapping.items():
        if source in names:
            found[column] = source
        else:
            problems.append(f"there is no column {source!r} to take as {column}{nearest(source, names)}")
    problems += [f"column {name!r} occurs twice" for name in dict.fromkeys(names) if names.count(name) > 1]
    free = [name for name in dict.fromkeys(names) if name not in mapping.values()]
    for column, synonyms in SYNONYMS.items():
        if column in mapping:
            continue
        own = [name for name in free if _plain(name) == column]
        usual = own or [name for name in free if _plain(name) in synonyms]
        if len(usual) > 1:
            both = " and ".join(map(repr, usual))
            problems.append(f"{both} may all be the {column}: choose one with --map {column}=COLUMN")
        elif usual:
            found[column] = usual[0]
    return Naming(found, frozenset(mapping), problems)


def missing_column(column: str) -> str:
    """Say that a column is missing, and under which names it was looked for."""
    return f"no column is the {column} (looked for: {', '.join((column, *SYNONYMS[column]))})"


def label_name(name: str) -> str:
    """The name under which a column is kept that has no other meaning.

    Example:
        >>> label_name("position"), label_name("rank")
        ('position', 'source_rank')
    """
    return f"source_{name}" if name in COLUMNS else name


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").replace(" ", "_")
