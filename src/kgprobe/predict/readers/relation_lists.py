"""Files that list, for each relation, the entities that may stand on either side of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from kgprobe.graph.readers.lines import disguise, read_lines, whole_number
from kgprobe.graph.readers.text import Layout, read_text
from kgprobe.predict.readers.names import KnownNames, Names
from kgprobe.predict.scorer import Side

if TYPE_CHECKING:
    from pathlib import Path

    from kgprobe.graph import KnowledgeGraph
    from kgprobe.graph.sorted_keys import Ints

Listed = Mapping[Side, tuple["Ints", "Ints"]]
"""For each side, the relation and the entity of every pair that is listed."""

_SIDES: tuple[Side, Side] = ("head", "tail")
_PAIRS = Layout(
    dict.fromkeys(("relation", "side", "entity"), False),
    "relation<TAB>side<TAB>entity",
    "\t",
    lambda line: line.split("\t"),
)
_TYPE_LINE = "relation count entity entity ... (ids)"


def read_pairs(path: Path, graph: KnowledgeGraph, problems: list[str]) -> Listed | None:
    r"""Lines of relation, side ("head" or "tail") and entity, by the graph's labels.

    Returns:
        The pairs; or None, with everything that is wrong added to ``problems``.

    Example:
        >>> import tempfile, pathlib
        >>> from kgprobe.graph import KnowledgeGraph
        >>> graph = KnowledgeGraph.from_triples(entity_labels=["Ada", "Bob"], relation_labels=["knows"])
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "types.tsv"
        >>> _ = path.write_text("knows\thead\tAda\nknows\ttail\tAda\nknows\ttail\tBob\n")
        >>> {side: entity.tolist() for side, (_, entity) in read_pairs(path, graph, []).items()}
        {'head': [0], 'tail': [0, 1]}
    """
    import pyarrow as pa

    names = {
        "relation": Names.relations(graph),
        "side": Names("side", pa.array(_SIDES)),
        "entity": Names.entities(graph),
    }
    rule = KnownNames(names, tuple(_PAIRS.columns))
    columns = read_text(path, _PAIRS, rule, problems)
    if columns is None:
        return None
    relation, side, entity = (rule.ids(columns, name) for name in _PAIRS.columns)
    return {name: (relation[side == i], entity[side == i]) for i, name in enumerate(_SIDES)}


def read_type_constraints(path: Path, graph: KnowledgeGraph, problems: list[str]) -> Listed | None:
    r"""OpenKE's type_constrain.txt: the number of relations, then for each a line of heads and a line of tails.

    Returns:
        The pairs; or None, with everything that is wrong added to ``problems``.

    Example:
        >>> import tempfile, pathlib
        >>> from kgprobe.graph import KnowledgeGraph
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "type_constrain.txt"
        >>> _ = path.write_text("1\n0 1 7\n0 2 8 9\n")
        >>> graph = KnowledgeGraph.from_triples(num_entities=10, num_relations=1)
        >>> {side: entity.tolist() for side, (_, entity) in read_type_constraints(path, graph, []).items()}
        {'head': [7], 'tail': [8, 9]}
    """
    try:
        kind = disguise(path)
    except OSError as error:
        problems.append(f"{path.name}: cannot be read ({error})")
        return None
    if kind and path.suffix != ".gz":
        problems.append(f"{path.name}: is {kind}, expected lines of {_TYPE_LINE}")
        return None
    lines = _TypeLines(graph.num_entities, graph.num_relations)
    rows, found = read_lines(path, str.split, lines.judge, header=False)
    if lines.promised is not None and 2 * lines.promised != lines.count:
        found.append(
            f"{path.name}: the first line says that {lines.promised:,} relations follow with two lines each, "
            f"but {lines.count:,} lines do"
        )
    problems += found
    return None if found else {side: _pairs(rows[1 + i :: 2]) for i, side in enumerate(_SIDES)}


def _pairs(rows: Sequence[Sequence[str]]) -> tuple[Ints, Ints]:
    relations = np.array([int(row[0]) for row in rows], dtype=np.int64)
    entities = np.fromiter((int(text) for text in chain.from_iterable(row[2:] for row in rows)), dtype=np.int64)
    return np.repeat(relations, [len(row) - 2 for row in rows]), entities


@dataclass
class _TypeLines:
    """What each line of the file must be, given those before it."""

    entities: int
    relations: int
    promised: int | None = None
    count: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    awaited: str | None = None

    def judge(self, number: int, fields: list[str]) -> str | None:
        if number == 1:
            self.promised = whole_number(fields[0]) if len(fields) == 1 else None
            return "expected the number of relations" if self.promised is None else None
        self.count += 1
        awaited, self.awaited = self.awaited, None if self.awaited is not None else fields[0]
        return self._relation(number, fields[0], awaited) or self._listed(fields)

    def _relation(self, number: int, text: str, awaited: str | None) -> str | None:
        if awaited is not None:
            return None if text == awaited else f"relation {text[:20]}, expected the tails of relation {awaited[:20]}"
        first = self.seen.setdefault(text, number)
        if first != number:
            return f"relation {text[:20]} is already on line {first}"
        return _id_problem("relation", text, self.relations)

    def _listed(self, fields: list[str]) -> str | None:
        if len(fields) < 2:
            return f"1 field, expected {_TYPE_LINE}"
        if whole_number(fields[1]) != len(fields) - 2:
            return f"the count is {fields[1][:20]}, but {len(fields) - 2:,} entities follow"
        wrong = [problem for text in fields[2:] if (problem := _id_problem("entity", text, self.entities))]
        return ", ".join(wrong[:3]) + (f" and {len(wrong) - 3:,} more" if len(wrong) > 3 else "") or None


def _id_problem(kind: str, text: str, limit: int) -> str | None:
    number = whole_number(text)
    return None if number is not None and number < limit else f"{text[:20]!r} is no known {kind}"
