"""Files of candidates: negatives of each triple (.npz), entities by relation (text, OpenKE), types of entities."""

from __future__ import annotations

import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts
from kgprobe.bounded_files import UNREADABLE, disguise, parse_json, read_bounded
from kgprobe.errors import DataError, shown, spans
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.names import Names
from kgprobe.graph.text_files import (
    KnownNames,
    Layout,
    first_lines,
    is_text_file,
    read_lines,
    read_text,
    whole_number,
)
from kgprobe.predict.array_files import open_arrays
from kgprobe.predict.queries import COLUMNS, RankedTriples
from kgprobe.predict.scorers import Side
from kgprobe.predict.stored_arrays import StoredArray
from kgprobe.ranks.schema import SIDE_NAMES

Listed: TypeAlias = Mapping[Side, tuple[AnyInts, AnyInts]]
"""For each side, the relation and the entity of every listed pair."""

_SIDES: tuple[Side, Side] = ("head", "tail")

_PAIRS = Layout(
    dict.fromkeys(("relation", "side", "entity"), False),
    "relation<TAB>side<TAB>entity",
    "\t",
    lambda line: line.split("\t"),
)

_TYPE_LINE = "relation count entity entity ... (ids)"


def read_negatives(
    path: Path, ranked: RankedTriples, num_entities: int, problems: list[str]
) -> dict[Side, AnyInts] | None:
    """Read arrays [rows, k] of entities, one for each ranked side, aligned with the triples as they were given.

    The array of a side is called "head_neg" or "tail_neg", or else "head" or "tail". If the file also has the triples
    themselves (one-dimensional head, relation and tail), they must be the ranked ones.

    Returns:
        The arrays by side; or None, with all problems appended to ``problems``.
    """
    if not zipfile.is_zipfile(path):
        problems.append(f"{path.name}: not an .npz file")
        return None
    try:
        lists, found = _read_lists(path, ranked, num_entities)
    except DataError as error:
        lists, found = {}, [f"cannot be read ({problem})" for problem in error.problems]
    problems += [f"{path.name}: {problem}" for problem in found]
    return None if found else lists


def _read_lists(path: Path, ranked: RankedTriples, num_entities: int) -> tuple[dict[Side, AnyInts], list[str]]:
    """The array of each side, and all problems. An array is read only if its type and its shape are right."""
    arrays = open_arrays(path).arrays
    found = _alignment_problems(arrays, ranked)
    lists: dict[Side, AnyInts] = {}
    for side in ranked.sides:
        name = f"{side}_neg" if f"{side}_neg" in arrays else side
        if name not in arrays:
            there = ", ".join(arrays) or "none"
            found.append(f"no array '{side}' or '{side}_neg' for the side {side}; arrays: {there}")
        elif wrong := _shape_problems(name, arrays[name], len(ranked.given)):
            found += wrong
        else:
            lists[side] = arrays[name].whole()
            found += list_problems(name, lists[side], len(ranked.given), num_entities)
    return lists, found


def list_problems(name: str, lists: NDArray[Any], rows: int, num_entities: int) -> list[str]:
    """Why an array is not a list of entities for each of ``rows`` triples."""
    if problems := _shape_problems(name, lists, rows):
        return problems
    wrong = np.any((lists < 0) | (lists >= num_entities), axis=1)
    if not wrong.any():
        return []
    return [f"{name}: ids outside 0..{num_entities - 1} in rows {_rows(wrong)} (counted from 0)"]


def _shape_problems(name: str, lists: StoredArray | NDArray[Any], rows: int) -> list[str]:
    if len(lists.shape) != 2 or not np.issubdtype(lists.dtype, np.integer):
        return [f"{name}: {lists.dtype} values of shape {lists.shape}, expected integers of shape [{rows}, k]"]
    return [] if lists.shape[0] == rows else [f"{name}: {lists.shape[0]:,} rows for {rows:,} triples"]


def _alignment_problems(arrays: Mapping[str, StoredArray], ranked: RankedTriples) -> list[str]:
    """Rows whose triple is not the ranked one."""
    if not all(name in arrays and len(arrays[name].shape) == 1 for name in COLUMNS):
        return []
    lengths = [arrays[name].shape[0] for name in COLUMNS]
    if set(lengths) != {len(ranked.given)}:
        return [f"head, relation, tail: {', '.join(f'{n:,}' for n in lengths)} rows for {len(ranked.given):,} triples"]
    types = [f"{name}: {arrays[name].dtype} values" for name in COLUMNS if arrays[name].dtype.kind not in "iu"]
    if types:
        return [f"head, relation, tail: {', '.join(types)}, expected integers"]
    columns: Sequence[NDArray[Any]] = [arrays[name].whole() for name in COLUMNS]
    differ = np.zeros(len(ranked.given), dtype=bool)
    differ[ranked.rows] = (np.stack(columns, axis=1)[ranked.rows] != ranked.triples).any(axis=1)
    return [f"triples differ from the ranked ones in rows {_rows(differ)} (counted from 0)"] if differ.any() else []


def _rows(marked: NDArray[np.bool_]) -> str:
    return spans(np.flatnonzero(marked).tolist(), most=10)


def read_pairs(path: Path, graph: KnowledgeGraph, problems: list[str]) -> Listed | None:
    r"""Read lines of relation, side ("head" or "subject", "tail" or "object") and entity, by the graph's labels.

    Returns:
        The pairs; or None, with all problems appended to ``problems``.

    Example:
        >>> import tempfile
        >>> graph = KnowledgeGraph.from_triples(entity_labels=["Ada", "Bob"], relation_labels=["knows"])
        >>> path = Path(tempfile.mkdtemp()) / "types.tsv"
        >>> _ = path.write_text("knows\thead\tAda\nknows\ttail\tAda\nknows\ttail\tBob\n")
        >>> {side: entity.tolist() for side, (_, entity) in read_pairs(path, graph, []).items()}
        {'head': [0], 'tail': [0, 1]}
    """
    import pyarrow as pa

    names = {
        "relation": graph.relation_index(),
        "side": Names("side", pa.array(list(SIDE_NAMES))),
        "entity": graph.entity_index(),
    }
    rule = KnownNames(names, tuple(_PAIRS.columns))
    columns = read_text(path, _PAIRS, rule, problems)
    if columns is None:
        return None
    relation, side, entity = (rule.ids(columns, name) for name in _PAIRS.columns)
    own = np.array(list(SIDE_NAMES.values()))[side]
    return {name: (relation[own == name], entity[own == name]) for name in _SIDES}


def read_type_constraints(path: Path, graph: KnowledgeGraph, problems: list[str]) -> Listed | None:
    r"""Read OpenKE's type_constrain.txt: the number of relations, then for each a line of heads and a line of tails.

    Returns:
        The pairs; or None, with all problems appended to ``problems``.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "type_constrain.txt"
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
    rows, found = read_lines(path, str.split, lines.problem, header=False)
    if lines.promised is not None and 2 * lines.promised != lines.count:
        found.append(
            f"{path.name}: the first line announces {lines.promised:,} relations with two lines each, "
            f"but {lines.count:,} lines follow"
        )
    problems += found
    return None if found else {side: _pairs(rows[1 + i :: 2]) for i, side in enumerate(_SIDES)}


def _pairs(rows: Sequence[Sequence[str]]) -> tuple[AnyInts, AnyInts]:
    relations = np.array([int(row[0]) for row in rows], dtype=np.int64)
    entities = np.fromiter((int(text) for text in chain.from_iterable(row[2:] for row in rows)), dtype=np.int64)
    return np.repeat(relations, [len(row) - 2 for row in rows]), entities


@dataclass
class _TypeLines:
    """Validates each line of type_constrain.txt, given the lines before it."""

    entities: int
    relations: int
    begun: bool = False
    promised: int | None = None
    count: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    awaited: str | None = None

    def problem(self, number: int, fields: list[str]) -> str | None:
        if not self.begun:
            self.begun, first = True, number == 1 and len(fields) == 1
            self.promised = whole_number(fields[0]) if first else None
            return "expected the number of relations in line 1" if self.promised is None else None
        self.count += 1
        awaited, self.awaited = self.awaited, None if self.awaited is not None else fields[0]
        return self._relation_problem(number, fields[0], awaited) or self._entity_problem(fields)

    def _relation_problem(self, number: int, text: str, awaited: str | None) -> str | None:
        if awaited is not None:
            return None if text == awaited else f"relation {text[:20]}, expected the tails of relation {awaited[:20]}"
        first = self.seen.setdefault(text, number)
        if first != number:
            return f"relation {text[:20]} is already on line {first}"
        return _id_problem("relation", text, self.relations)

    def _entity_problem(self, fields: list[str]) -> str | None:
        if len(fields) < 2:
            return f"1 field, expected {_TYPE_LINE}"
        if whole_number(fields[1]) != len(fields) - 2:
            return f"the count is {fields[1][:20]}, but {len(fields) - 2:,} entities follow"
        wrong = [problem for text in fields[2:] if (problem := _id_problem("entity", text, self.entities))]
        return ", ".join(wrong[:3]) + (f" and {len(wrong) - 3:,} more" if len(wrong) > 3 else "") or None


def _id_problem(kind: str, text: str, limit: int) -> str | None:
    number = whole_number(text)
    return None if number is not None and number < limit else f"{text[:20]!r} is no known {kind}"


_TYPE_FILE = re.compile(r"entit(?:y|ies)[^a-z]*(?:2|to)?[^a-z]*types?\b")
_SHOWN = 5


def is_type_file(path: Path) -> bool:
    """Whether a file has types of entities: by its name (entity2types), as JSON, or as lines of two fields.

    Example:
        >>> is_type_file(Path("codex-s/entity2types.json")), is_type_file(Path("type_constrain.txt"))
        (True, False)
    """
    stem = path.name.lower().removesuffix(".gz")
    if _TYPE_FILE.match(stem) or stem.endswith(".json"):
        return True
    lines = first_lines(path, 1)
    return bool(lines) and lines[0][1].count("\t") == 1


def read_types(path: Path, graph: KnowledgeGraph, problems: list[str]) -> Listed | None:
    r"""Read the types of entities: the candidates share a type with an entity seen on that side of the relation.

    The file is a JSON object (entity: list of types) or has lines of an entity and its types, separated by tabs. An
    entity that train has on that side is a candidate too, and so is every entity without types.

    Returns:
        The pairs; or None, with all problems appended to ``problems``.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "entity2types.tsv"
        >>> _ = path.write_text("Ada\tperson\nBob\tperson\nRome\tcity\n")
        >>> graph = KnowledgeGraph.from_labels(train=[("Ada", "lives in", "Rome")], test=[("Bob", "lives in", "Rome")])
        >>> {side: sorted(set(entity.tolist())) for side, (_, entity) in read_types(path, graph, []).items()}
        {'head': [0, 1], 'tail': [2]}
    """
    if not graph.has_train:
        problems.append(f"{graph.name} has no training triples, which tell the types of each side of a relation")
        return None
    read = _types_of_json if path.name.lower().removesuffix(".gz").endswith(".json") else _types_of_lines
    types = read(path, problems)
    if types is None:
        return None
    labels, kinds = types
    entity = graph.entity_index().ids(labels.dictionary)[labels.indices.to_numpy()]
    if not (entity >= 0).any():
        problems.append(f"{path.name}: none of its {len(labels.dictionary):,} entities is an entity of {graph.name}")
        return None
    _say_untyped(path, graph, entity, len(labels.dictionary))
    return _sharing_types(graph, entity[entity >= 0], kinds.indices.to_numpy()[entity >= 0], len(kinds.dictionary))


def _say_untyped(path: Path, graph: KnowledgeGraph, entity: AnyInts, listed: int) -> None:
    typed = len(np.unique(entity[entity >= 0]))
    if typed < graph.num_entities:
        without = f"{graph.num_entities - typed:,} of {graph.num_entities:,} entities have no type"
        other = f" ({listed - typed:,} that it lists are not of {graph.name})" if listed > typed else ""
        warnings.warn(f"{path.name}: {without}{other}: they are candidates of every relation", stacklevel=2)


def _sharing_types(graph: KnowledgeGraph, entity: AnyInts, kind: AnyInts, num_types: int) -> Listed:
    """For each side, the pairs of a relation and an entity that shares a type with one seen there, or has none."""
    from scipy.sparse import csr_array

    def flags(rows: AnyInts, columns: AnyInts, num_rows: int, num_columns: int) -> csr_array[Any, tuple[int, int]]:
        return csr_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(num_rows, num_columns))

    has_type = flags(entity, kind, graph.num_entities, num_types)
    untyped = np.setdiff1d(np.arange(graph.num_entities), entity)
    everywhere = np.repeat(np.arange(graph.num_relations), len(untyped))
    head, relation, tail = graph.triples("train").T
    pairs: dict[Side, tuple[AnyInts, AnyInts]] = {}
    for side, seen in zip(_SIDES, (head, tail), strict=True):
        # Products of boolean matrices are joins: relation to entities seen, to their types, to all entities of these.
        fitting = (flags(relation, seen, graph.num_relations, graph.num_entities) @ has_type @ has_type.T).tocoo()
        relations = np.concatenate([fitting.row, relation, everywhere])
        pairs[side] = relations, np.concatenate([fitting.col, seen, np.tile(untyped, graph.num_relations)])
    return pairs


def _types_of_lines(path: Path, problems: list[str]) -> tuple[Any, Any] | None:
    """Entities and types, dictionary-encoded, one pair per row, of lines of an entity and its types."""
    if not is_text_file(path, "entity<TAB>type<TAB>type ...", problems):
        return None

    def judge(_number: int, fields: list[str]) -> str | None:
        return None if len(fields) > 1 and all(fields) else "expected entity<TAB>type, perhaps with more types"

    rows, found = read_lines(path, lambda line: line.rstrip("\t").split("\t"), judge, header=False)
    problems += found
    return None if found else _encoded([(row[0], row[1:]) for row in rows])


def _types_of_json(path: Path, problems: list[str]) -> tuple[Any, Any] | None:
    """Entities and types of a JSON object: entity to a type or to a list of types."""
    try:
        content = parse_json(read_bounded(path))
    except (*UNREADABLE, ValueError) as error:
        problems.append(f"{path.name}: not readable as JSON ({str(error).splitlines()[0][:150]})")
        return None
    if not isinstance(content, dict):
        problems.append(f"{path.name}: not an object of entities and their lists of types")
        return None
    lists = {label: [kinds] if isinstance(kinds, str) else kinds for label, kinds in content.items()}
    wrong = [label for label, kinds in lists.items() if not _are_types(kinds)]
    if wrong:
        listed = ", ".join(f"{shown(label)}: {shown(content[label])}" for label in wrong[:_SHOWN])
        problems.append(f"{path.name}: {len(wrong):,} entities do not have a list of types, such as {listed}")
        return None
    return _encoded([(label, [str(kind) for kind in kinds]) for label, kinds in lists.items()])


def _are_types(kinds: Any) -> bool:
    return isinstance(kinds, list) and all(type(kind) in (str, int) for kind in kinds)


def _encoded(rows: Sequence[tuple[str, Sequence[str]]]) -> tuple[Any, Any]:
    import pyarrow as pa

    entity = np.repeat(np.arange(len(rows)), [len(kinds) for _, kinds in rows])
    labels = pa.array([label for label, _ in rows], pa.string()).take(pa.array(entity))
    kinds = pa.array(list(chain.from_iterable(kinds for _, kinds in rows)), pa.string())
    return labels.dictionary_encode(), kinds.dictionary_encode()
