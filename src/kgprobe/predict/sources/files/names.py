"""Rows of a model's arrays brought to the ids of a graph by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kgprobe.graph.sorted_keys import Ints
from kgprobe.predict.readers.names import Names

if TYPE_CHECKING:
    from kgprobe.graph.labels import Labels

_SHOWN = 10


def ids_by_name(what: str, given: Labels, names: Names, problems: list[str]) -> Ints | None:
    """The id of each given name; or None, with what is wrong added to ``problems``.

    Args:
        what: How the list of names is called where something is wrong with it.
        given: Names in the order of the rows.
        names: The names of the graph, each of which must be given once.
        problems: Takes what is wrong.

    Example:
        >>> import pyarrow as pa
        >>> names = Names.build("entity", 3, pa.array(["a", None, "c"]))
        >>> ids_by_name("entities", pa.array(["c", "1", "a"]), names, problems=[]).tolist()
        [2, 1, 0]
    """
    import pyarrow.compute as pc

    own = given.cast(names.names.type)
    ids = names.ids(own)
    complaints = {
        "names that the graph does not have, or has twice": own.filter(ids < 0).unique(),
        "names given more than once": _repeated(own),
        "names of the graph that are not given": names.names.filter(pc.invert(pc.is_in(names.names, value_set=own))),
    }
    wrong = [f"{what}: {_listed(some, kind)}" for kind, some in complaints.items() if len(some)]
    problems += wrong
    return None if wrong else ids.astype(np.int64)


def _repeated(names: Labels) -> Labels:
    import pyarrow.compute as pc

    counts = names.value_counts()
    return counts.field("values").filter(pc.greater(counts.field("counts"), 1))


def _listed(names: Labels, kind: str) -> str:
    shown = ", ".join(map(repr, names.slice(0, _SHOWN).to_pylist()))
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{len(names):,} {kind}: {shown}{more}"
