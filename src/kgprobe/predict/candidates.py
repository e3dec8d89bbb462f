"""Given candidate sets in place of all entities: for each relation, or for each triple."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, EntityRows, Grouped, find
from kgprobe.errors import DataError, UsageError, nearest, spans
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.names import KnownNames, Names
from kgprobe.graph.text_files import UNREADABLE, Layout, disguise, read_lines, read_text, whole_number
from kgprobe.predict.queries import RankedTriples
from kgprobe.predict.scorers import Side

_FACT = ("head", "relation", "tail")


def read_negatives(
    path: Path, facts: RankedTriples, num_entities: int, problems: list[str]
) -> dict[Side, AnyInts] | None:
    """Arrays [rows, k] of entities, one for each side that is ranked, row by row with the facts as they were given.

    The array of a side is called "head_neg" or "tail_neg", or else "head" or "tail". Where the file also has the
    facts themselves (one-dimensional head, relation and tail), they must be those that are ranked.

    Returns:
        The arrays by side; or None, with everything that is wrong added to ``problems``.

    Example:
        >>> import tempfile, pathlib
        >>> from kgprobe.graph import KnowledgeGraph
        >>> from kgprobe.predict.queries import RankedTriples
        >>> facts = RankedTriples.build(KnowledgeGraph.from_triples(test=[[0, 0, 1], [2, 0, 3]]), sides="tail")
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "negatives.npz"
        >>> np.savez(path, tail_neg=np.array([[2, 3], [0, 1]]))
        >>> read_negatives(path, facts, num_entities=4, problems=[])["tail"].tolist()
        [[2, 3], [0, 1]]
    """
    arrays = _load(path, problems)
    if arrays is None:
        return None
    found = _alignment_problems(arrays, facts)
    names = {side: f"{side}_neg" if f"{side}_neg" in arrays else side for side in facts.sides}
    for side, name in names.items():
        if name in arrays:
            found += list_problems(name, arrays[name], len(facts.given), num_entities)
        else:
            there = ", ".join(arrays) or "none"
            found.append(f"no array '{side}' or '{side}_neg' for the side {side}; arrays: {there}")
    problems += [f"{path.name}: {problem}" for problem in found]
    return None if found else {side: arrays[name] for side, name in names.items()}


def _load(path: Path, problems: list[str]) -> dict[str, npt.NDArray[Any]] | None:
    try:
        if not zipfile.is_zipfile(path):
            problems.append(f"{path.name}: is no .npz file")
            return None
        with np.load(path, allow_pickle=False) as file:
            # What is no array in the archive comes as bytes, and is refused for its shape.
            return {name: np.asarray(file[name]) for name in file.files}
    except (*UNREADABLE, zipfile.BadZipFile, ValueError) as error:
        problems.append(f"{path.name}: cannot be read ({error})")
        return None


def list_problems(name: str, lists: npt.NDArray[Any], rows: int, num_entities: int) -> list[str]:
    """What keeps an array from being a list of entities for each of so many facts."""
    if lists.ndim != 2 or not np.issubdtype(lists.dtype, np.integer):
        return [f"{name}: {lists.dtype} values of shape {lists.shape}, expected whole numbers of shape [{rows}, k]"]
    if len(lists) != rows:
        return [f"{name}: {len(lists):,} rows for {rows:,} facts"]
    wrong = np.any((lists < 0) | (lists >= num_entities), axis=1)
    if not wrong.any():
        return []
    return [f"{name}: ids outside 0..{num_entities - 1} in rows {_rows(wrong)} (counted from 0)"]


def _alignment_problems(arrays: Mapping[str, npt.NDArray[Any]], facts: RankedTriples) -> list[str]:
    """Rows whose fact is not the one that is ranked there."""
    if not all(name in arrays and arrays[name].ndim == 1 for name in _FACT):
        return []
    columns: Sequence[npt.NDArray[Any]] = [arrays[name] for name in _FACT]
    lengths = [len(column) for column in columns]
    if set(lengths) != {len(facts.given)}:
        return [f"head, relation, tail: {', '.join(f'{n:,}' for n in lengths)} rows for {len(facts.given):,} facts"]
    differ = np.zeros(len(facts.given), dtype=bool)
    differ[facts.rows] = (np.stack(columns, axis=1)[facts.rows] != facts.triples).any(axis=1)
    return [f"other facts than those that are ranked in rows {_rows(differ)} (counted from 0)"] if differ.any() else []


def _rows(marked: npt.NDArray[np.bool_]) -> str:
    return spans(np.flatnonzero(marked).tolist(), most=10)


Listed = Mapping[Side, tuple[AnyInts, AnyInts]]

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


def _pairs(rows: Sequence[Sequence[str]]) -> tuple[AnyInts, AnyInts]:
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


_WORDS = ("all", "train")

_HOW = (
    "the candidates of relations are lines of relation<TAB>side<TAB>entity (perhaps .gz) or OpenKE's "
    "type_constrain.txt; those of facts are arrays [facts, k] 'head' and 'tail' in an .npz file"
)


@dataclass(frozen=True, eq=False)
class RelationCandidates:
    """The entities that may stand on either side of a relation (type constraints).

    The target of a query is a candidate whether it is listed or not.

    Attributes:
        name: Where they come from.
        groups: For each side, the entities by relation.
        file_hash: SHA-256 of the file that they come from, if any.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 0, 2], [2, 1, 0]])
        >>> seen = RelationCandidates.from_train(graph)
        >>> seen.ids("tail", 0).tolist(), seen.ids("head", 1).tolist()
        ([1, 2], [2])
    """

    name: str
    groups: Mapping[Side, Grouped]
    file_hash: str | None = None

    @classmethod
    def from_pairs(
        cls, name: str, graph: KnowledgeGraph, listed: Listed, file_hash: str | None = None
    ) -> RelationCandidates:
        """From the relation and the entity of every pair, by side."""
        groups = {
            side: Grouped.build(relation, entity, graph.num_relations, graph.num_entities)
            for side, (relation, entity) in listed.items()
        }
        return cls(name, groups, file_hash)

    @classmethod
    def from_train(cls, graph: KnowledgeGraph) -> RelationCandidates:
        """The entities that training triples have on that side of that relation."""
        if not graph.has_train:
            raise DataError(
                f"{graph.name}: no candidates by relation",
                ["the training triples that would tell them are not here"],
                "give them in a file, or use --candidates all",
            )
        head, relation, tail = graph.triples("train").T
        return cls.from_pairs("train", graph, {"head": (relation, head), "tail": (relation, tail)})

    @property
    def description(self) -> dict[str, str]:
        """What a rank file says about its candidates."""
        return _described(self.name, self.file_hash)

    def ids(self, side: Side, relation: int) -> NDArray[np.int64]:
        """The candidates on a side of a relation: distinct, in ascending order; none where none are listed."""
        groups = self.groups[side]
        listed = EntityRows(groups.offsets, groups.values).take(find(groups.keys, np.array([relation])))
        return listed.entities.astype(np.int64, copy=False)


@dataclass(frozen=True, eq=False)
class QueryCandidates:
    """The candidates of each fact on its own (negatives that were drawn once for all).

    The target of a query is a candidate whether it is listed or not.

    Attributes:
        name: Where they come from.
        lists: For each side, an array [rows, k] of entities, row by row with the facts as they were given.
        rows: For each fact that is ranked, its row there.
        file_hash: SHA-256 of the file that they come from, if any.

    Example:
        >>> drawn = QueryCandidates("negatives", {"tail": np.array([[5, 2, 5], [7, 8, 9]])}, rows=np.array([0, 1]))
        >>> offsets, entities = drawn.ids("tail", np.array([0, 1]))
        >>> offsets.tolist(), entities.tolist()
        ([0, 2, 5], [2, 5, 7, 8, 9])
    """

    name: str
    lists: Mapping[Side, AnyInts]
    rows: AnyInts
    file_hash: str | None = None

    @property
    def description(self) -> dict[str, str]:
        """What a rank file says about its candidates."""
        return _described(self.name, self.file_hash)

    def ids(self, side: Side, fact_rows: AnyInts) -> EntityRows:
        """The candidates on a side of the facts in these rows of `Facts.triples`."""
        ordered = np.sort(self.lists[side][self.rows[fact_rows]], axis=1)
        new = np.ones(ordered.shape, dtype=bool)
        np.not_equal(ordered[:, 1:], ordered[:, :-1], out=new[:, 1:])
        offsets = np.zeros(len(ordered) + 1, dtype=np.int64)
        np.cumsum(new.sum(axis=1), out=offsets[1:])
        return EntityRows(offsets, ordered[new].astype(np.int64, copy=False))


CandidateSets: TypeAlias = RelationCandidates | QueryCandidates


def require_fit(sets: CandidateSets, graph: KnowledgeGraph, facts: RankedTriples) -> None:
    """Refuse candidates that are not those of the facts.

    Example:
        >>> graph = KnowledgeGraph.from_triples(test=[[1, 0, 0]])
        >>> mine = QueryCandidates("mine", {"tail": np.array([[5]])}, np.array([0]))
        >>> require_fit(mine, graph, RankedTriples.build(graph))
        Traceback (most recent call last):
        ...
        kgprobe.errors.DataError: mine: these are not candidates for graph
          - tail: ids outside 0..1 in rows 0 (counted from 0)
          - there are none for the head
    """
    given = sets.lists if isinstance(sets, QueryCandidates) else sets.groups
    problems = []
    if isinstance(sets, QueryCandidates):
        for side, lists in sets.lists.items():
            problems += list_problems(side, lists, len(facts.given), graph.num_entities)
    elif any(groups.num_values != graph.num_entities for groups in sets.groups.values()):
        problems.append(f"they are of a graph that has not {graph.num_entities:,} entities")
    problems += [f"there are none for the {side}" for side in facts.sides if side not in given]
    if problems:
        raise DataError(f"{sets.name}: these are not candidates for {graph.name}", problems)


def open_candidates(text: str | os.PathLike[str], graph: KnowledgeGraph, facts: RankedTriples) -> CandidateSets | None:
    """The candidates that a word or a file names.

    Args:
        text: "all" entities; "train": those that training triples have on that side of that relation; or a file.
        graph: The graph that is ranked.
        facts: The facts that are ranked.

    Returns:
        The candidates; None for all entities.

    Example:
        >>> graph = KnowledgeGraph.from_triples(train=[[0, 0, 1]], test=[[1, 0, 0]])
        >>> open_candidates("train", graph, RankedTriples.build(graph)).description
        {'candidates': 'train'}
    """
    name = os.fspath(text)
    if name == "all":
        return None
    if name == "train":
        return RelationCandidates.from_train(graph)
    path = Path(name)
    if not os.path.exists(path):
        raise UsageError(f"{name!r} is neither a kind of candidates nor a file{nearest(name, _WORDS)}", remedy=_HOW)
    problems: list[str] = []
    sets = _read(path, graph, facts, problems)
    if sets is None:
        raise DataError(f"{path}: these are not candidates for {graph.name}", problems, _HOW)
    return sets


def _read(path: Path, graph: KnowledgeGraph, facts: RankedTriples, problems: list[str]) -> CandidateSets | None:
    if path.suffix == ".npz":
        lists = read_negatives(path, facts, graph.num_entities, problems)
        return None if lists is None else QueryCandidates(path.name, lists, facts.rows, _hash(path))
    read = read_type_constraints if path.name.startswith("type_constrain") else read_pairs
    listed = read(path, graph, problems)
    return None if listed is None else RelationCandidates.from_pairs(path.name, graph, listed, _hash(path))


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _described(name: str, file_hash: str | None) -> dict[str, str]:
    return {"candidates": name} | ({} if file_hash is None else {"candidates_hash": file_hash})
