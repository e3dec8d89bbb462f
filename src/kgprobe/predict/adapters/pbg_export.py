"""The text export of PyTorch-BigGraph: rows of entities and parameters of relations, with a config.json beside them."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kgprobe.bounded_files import BLOCK, UNREADABLE, bounded_lines, open_bytes
from kgprobe.errors import DataError
from kgprobe.graph.names import as_labels
from kgprobe.graph.text_files import Complaints, is_text_file, whole_number
from kgprobe.predict.adapters.pbg_config import CONFIG, Config, read_config
from kgprobe.predict.adapters.pbg_scorers import OPERATORS, End, Parameters
from kgprobe.predict.adapters.pbg_tables import PbgFiles, open_files, read_names
from kgprobe.predict.adapters.score_files import ArraySpec
from kgprobe.predict.array_files import open_arrays
from kgprobe.predict.scorers import AnyScorer, Singles
from kgprobe.predict.stored_arrays import StoredArray, reading
from kgprobe.predict.tasks import RelationCandidates
from kgprobe.resources import require_unpackable

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.graph.names import Labels

ENTITIES, RELATIONS = "entity_embeddings.tsv", "relation_types_parameters.tsv"
REVERSE = "_reverse_relation"
_Relations: TypeAlias = "tuple[Labels | None, Mapping[End, Mapping[str, Parameters]]]"
"""The names of the relations in the order of their parameters, and the parameters."""

_ENDINGS = (".tsv", ".tsv.gz")
_VECTORS = "_vectors.npy"
_ENDS: tuple[End, End] = ("lhs", "rhs")
_TEXTS = 5
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NOTE = "read from text, in which the library writes 9 decimals: ranks may differ from those of its checkpoint"
_REMEDY = (
    f"the export needs {CONFIG} of the checkpoint beside it, which says how embeddings are compared; {ENTITIES}: lines "
    f"of name<TAB>numbers; {RELATIONS}: lines of relation<TAB>side<TAB>operator<TAB>parameter<TAB>shape<TAB>numbers; "
    "both may be compressed (.gz)"
)


def is_pbg_export(path: str | PathLike[str]) -> bool:
    """Whether a path is a folder with a file of entities that was exported, or such a file."""
    place = Path(path)
    if place.is_dir():
        return _entity_file(place) is not None
    return place.name.endswith(_ENDINGS) or (place.name.endswith(_VECTORS) and _names_file(place) is not None)


def _entity_file(folder: Path) -> Path | None:
    return next((folder / f"{ENTITIES}{end}" for end in ("", ".gz") if (folder / f"{ENTITIES}{end}").is_file()), None)


def open_pbg_export(
    path: str | PathLike[str], graph: KnowledgeGraph, triples: np.ndarray[Any, Any]
) -> tuple[str, AnyScorer, dict[str, Any], RelationCandidates | None]:
    """Open what ``torchbiggraph_export_to_tsv`` wrote: the folder, or the file of the entities.

    A file whose first line has three numbers is of the older layout, as the published Wikidata embeddings: the numbers
    of entities and relations and the dimension, then the entities, then the relations on the right-hand side, then
    those on the left-hand side, which are called NAME_reverse_relation. The same rows may be in NAME_vectors.npy, with
    their names in NAME_names.json; this array is memory-mapped if it is large.

    Returns:
        The name of the model, its scorer, its metadata, and None, because there is a single entity type.

    Raises:
        DataError: Files are missing, damaged or contradict each other, or do not fit the graph; with all problems.
    """
    place = Path(path)
    entities = _entity_file(place) if place.is_dir() else place
    assert entities is not None
    problems: list[str] = []
    config = read_config(entities.parent / CONFIG, problems)
    if config is not None:
        problems += [f"{CONFIG}: {problem}" for problem in _unusable(config)]
    files = None if config is None or problems else _read(place, entities, config, problems)
    if files is None or problems:
        raise DataError(f"{place}: not an export of PyTorch-BigGraph", problems, _REMEDY)
    return open_files(files, graph, triples)


def _unusable(config: Config) -> list[str]:
    """What an export leaves out, though the score depends on it."""
    found = []
    if len(config.partitions) > 1:
        found.append(
            f"{len(config.partitions)} entity types, but the rows of an export do not say their type: "
            "open the checkpoint"
        )
    if config.global_emb and config.max_norm is not None:
        found.append(
            "'max_norm' with 'global_emb': the export adds the global embedding to rows whose norms were not limited "
            "before, as the model does: open the checkpoint"
        )
    return found


def _names_file(vectors: Path) -> Path | None:
    """The file with the names of the rows of an array."""
    stem = vectors.name.removesuffix(_VECTORS)
    paths = [vectors.with_name(f"{stem}_names.json{end}") for end in ("", ".gz")]
    return next((path for path in paths if path.is_file()), None)


def _read(place: Path, entities: Path, config: Config, problems: list[str]) -> PbgFiles | None:
    if entities.name.endswith(_VECTORS):
        return _read_array(place, entities, config, problems)
    if not is_text_file(entities, "name<TAB>numbers", problems):
        return None
    sizes = _sizes(entities)
    names, rows = _rows(entities, config.dimension, 0 if sizes is None else 1, problems)
    if names is None:
        return None
    if sizes is None:
        relations = _relations(entities.parent, config, problems)
    else:
        if sizes[2] != config.dimension:
            problems.append(f"{entities.name}: dimension {sizes[2]} in line 1, but {config.dimension} in {CONFIG}")
        relations = _appended(entities.name, config, names, sizes[0], rows[sizes[0] :], problems)
        names, rows = names[: sizes[0]], rows[: sizes[0]]
    if relations is None or problems:
        return None
    array = StoredArray(
        entities, entities.name, "float32", rows.dtype, rows.shape, lambda: io.BytesIO(rows.tobytes()), None
    )
    return _files(place, config, array, names, relations, {"notes": [_NOTE]})


def _files(
    place: Path, config: Config, array: StoredArray, names: Labels, relations: _Relations, settings: dict[str, Any]
) -> PbgFiles:
    (kind,) = config.partitions
    labels = as_labels(names)
    assert labels is not None
    settings |= {"matched by name": ["entities", "relations"]}
    return PbgFiles(place, config, {kind: [array]}, {kind: labels}, *relations, {}, settings)


def _read_array(place: Path, vectors: Path, config: Config, problems: list[str]) -> PbgFiles | None:
    """The older layout as an array, whose entities are all rows before those of the relations."""
    path = _names_file(vectors)
    assert path is not None
    try:
        array = open_arrays(vectors).arrays[vectors.name]
        with reading(path):
            names = read_names(path)
    except DataError as error:
        problems += [f"{error.title.split(':')[0]}: {problem}" for problem in error.problems]
        return None
    problems += ArraySpec(vectors.name, "names", len(names), (config.dimension,)).problems(array.shape, array.kind)
    if problems:
        return None
    suffixed = pc.ends_with(names, REVERSE).to_numpy(zero_copy_only=False)
    entities = len(names) - 2 * (len(names) - int(np.flatnonzero(~suffixed).max(initial=-1)) - 1)
    values = array.rows(slice(max(entities, 0), len(names))).astype(np.float32)
    relations = _appended(path.name, config, names, entities, values, problems)
    if relations is None:
        return None
    return _files(place, config, replace(array, shape=(entities, config.dimension)), names[:entities], relations, {})


def _sizes(path: Path) -> list[int] | None:
    """The three numbers in the first line of the older layout; None for a line of a name and its numbers."""
    try:
        with open_bytes(path) as file:
            fields = next(bounded_lines(file), b"").decode("utf-8", "replace").replace("#", " ").split()
    except UNREADABLE:
        return None
    numbers = [whole_number(field) for field in fields]
    return [number or 0 for number in numbers] if len(numbers) == 3 and None not in numbers else None


def _rows(path: Path, dimension: int, skip: int, problems: list[str]) -> tuple[Labels | None, Singles]:
    """The names and the numbers of all lines; no names if some lines are wrong, which are appended to ``problems``."""
    from pyarrow import csv

    columns = {"name": pa.string(), **{str(i): pa.float32() for i in range(dimension)}}
    read = csv.ReadOptions(column_names=list(columns), skip_rows=skip, block_size=max(BLOCK, 64 * dimension))
    parse = csv.ParseOptions(delimiter="\t", quote_char=False, escape_char=False)
    convert = csv.ConvertOptions(column_types=columns, null_values=[], strings_can_be_null=False)
    names, blocks, size = [], [np.empty((0, dimension), dtype=np.float32)], 0
    try:
        with open_bytes(path) as file:
            for batch in csv.open_csv(file, read, parse, convert):
                names.append(batch.column(0))
                blocks.append(np.column_stack([column.to_numpy(zero_copy_only=False) for column in batch.columns[1:]]))
                size += blocks[-1].nbytes + batch.column(0).nbytes
                require_unpackable(size, "the text, as numbers,")
        found: Labels = pa.chunked_array(names, pa.large_string() if size >= 1 << 31 else pa.string()).combine_chunks()
        if not pc.any(pc.equal(found, "")).as_py():
            return found, np.concatenate(blocks)
    except (pa.ArrowException, *UNREADABLE) as error:
        reason = str(error)
    else:
        reason = "empty names"
    problems += list(_bad_lines(path, dimension, skip)) or [f"{path.name}: cannot be read ({reason[:100]})"]
    return None, blocks[0]


def _bad_lines(path: Path, dimension: int, skip: int) -> Iterator[str]:
    """The lines that are not a name and its numbers."""
    complaints = Complaints(path.name)
    try:
        with open_bytes(path) as file:
            for number, line in enumerate(bounded_lines(file), 1):
                name, *fields = line.decode("utf-8", "replace").split("\t")
                wrong = [field for field in fields if not _NUMBER.fullmatch(field.strip())]
                if not line or number <= skip:
                    continue
                if len(fields) != dimension:
                    complaints.add(number, f"{len(fields)} numbers, expected {dimension} by {CONFIG}", name)
                elif wrong or not name:
                    complaints.add(number, f"{wrong[0][:20]!r} is not a number" if wrong else "no name", name)
    except UNREADABLE as error:
        yield f"{path.name}: cannot be read ({error})"
    yield from complaints.lines()


def _relations(folder: Path, config: Config, problems: list[str]) -> _Relations | None:
    """The relations in their file; None with all problems appended to ``problems``."""
    paths = [folder / f"{RELATIONS}{end}" for end in ("", ".gz")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        problems.append(f"{RELATIONS}: no such file")
        return None
    lines = _Lines(config, Complaints(path.name))
    try:
        with open_bytes(path) as file:
            for number, line in enumerate(bounded_lines(file), 1):
                wrong = lines.add(line) if line else None
                if wrong:
                    lines.complaints.add(number, wrong, line[:60].decode("utf-8", "replace"))
    except UNREADABLE as error:
        problems.append(f"{path.name}: cannot be read ({error})")
        return None
    problems += [*lines.complaints.lines(), *(f"{path.name}: {problem}" for problem in lines.missing())]
    return None if problems else lines.relations()


@dataclass(frozen=True)
class _Lines:
    """Collects the parameters of relations, line by line.

    Attributes:
        config: The configuration.
        complaints: What is wrong with the lines.
        found: The parameters by relation, side and name.
    """

    config: Config
    complaints: Complaints
    found: dict[tuple[str, str, str], Singles] = field(default_factory=dict)

    @property
    def ends(self) -> tuple[End, ...]:
        return _ENDS if self.config.dynamic else ("rhs",)

    @property
    def operators(self) -> dict[str, str]:
        """The operator of each relation that is known so far."""
        if not self.config.dynamic:
            return {relation.name: relation.operator for relation in self.config.relations}
        operator = self.config.relations[0].operator
        return dict.fromkeys((name for name, _, _ in self.found), operator)

    def add(self, line: bytes) -> str | None:
        """Add a line, or return what is wrong with it."""
        try:
            name, end, operator, parameter, shape, *fields = line.decode().split("\t")
        except UnicodeDecodeError:
            return "not UTF-8"
        except ValueError:
            return f"fewer than {_TEXTS} fields before the numbers"
        own = self.config.relations[0].operator if self.config.dynamic else self.operators.get(name)
        if own is None:
            return f"{CONFIG} has no relation of this name"
        if operator != own or end not in self.ends:
            ends = " and ".join(self.ends)
            return f"operator {operator[:20]!r} on side {end[:20]!r}, but {CONFIG} has {own!r} on {ends}"
        shapes = OPERATORS[own].shapes(self.config.dimension)
        kind = parameter if parameter in shapes else parameter.removesuffix("s")
        expected = "x".join(map(str, shapes[kind])) if kind in shapes else None
        if shape != expected:
            return f"parameter {parameter[:40]!r} of shape {shape[:20]!r}, expected {expected or ' or '.join(shapes)}"
        if len(fields) != math.prod(shapes[kind]):
            return f"{len(fields)} numbers for shape {shape}"
        if not all(map(_NUMBER.fullmatch, fields)):
            return "not all are numbers"
        if (name, end, kind) in self.found:
            return "the same parameter as before"
        with np.errstate(over="ignore"):
            values = np.array(fields, dtype=np.float64).astype(np.float32).reshape(shapes[kind])
        if not np.isfinite(values).all():
            return "numbers beyond float32"
        self.found[name, end, kind] = values
        return None

    def missing(self) -> list[str]:
        """Parameters that no line has; the library writes no more lines after a matrix, at which it fails."""
        absent = [
            f"{name!r} on {end}: {kind}"
            for name, operator in self.operators.items()
            for end in self.ends
            for kind in OPERATORS[operator].shapes(self.config.dimension)
            if (name, end, kind) not in self.found
        ]
        if not self.operators and OPERATORS[self.config.relations[0].operator].shapes(self.config.dimension):
            absent = ["all"]
        listed = ", ".join(absent[:10]) + (", ..." if len(absent) > 10 else "")
        return [f"{len(absent):,} parameters are missing: {listed}"] if absent else []

    def relations(self) -> _Relations:
        names = [relation.name for relation in self.config.relations] if not self.config.dynamic else [*self.operators]
        parameters: dict[End, dict[str, Parameters]] = {}
        for end in self.ends:
            parameters[end] = {}
            for operator in dict.fromkeys(relation.operator for relation in self.config.relations):
                having = [name for name in names if self.operators[name] == operator]
                kinds = OPERATORS[operator].shapes(self.config.dimension)
                stacked = {kind: [self.found[name, end, kind] for name in having] for kind in kinds}
                parameters[end][operator] = {kind: np.stack(values) for kind, values in stacked.items()}
        anonymous = self.config.dynamic and not OPERATORS[self.config.relations[0].operator].shapes(2)
        return None if anonymous else pa.array(names, pa.string()), parameters


def _appended(
    where: str, config: Config, names: Labels, entities: int, values: Singles, problems: list[str]
) -> _Relations | None:
    """The relations that follow the entities in a file of the older layout; ``values`` are their rows."""
    operator = config.relations[0].operator
    shapes = OPERATORS[operator].shapes(config.dimension)
    count, odd = divmod(len(names) - entities, 2)
    found = []
    if not config.dynamic or [*shapes.values()] != [(config.dimension,)]:
        found.append(
            "this layout has one vector for each relation and side: dynamic relations with translation or diagonal"
        )
    if odd or count < 1:
        found.append(f"{len(names):,} rows, of which {entities:,} are entities; expected pairs of relations after them")
    elif not names[entities + count :].equals(_reversed(names[entities : entities + count])):
        found.append(f"the last {count:,} names are not those of the {count:,} relations before, with {REVERSE!r}")
    problems += [f"{where}: {problem}" for problem in found]
    if found:
        return None
    (kind,) = shapes
    if not np.isfinite(values).all():
        problems.append(f"{where}: relations hold NaN, infinity or numbers beyond float32")
        return None
    relations = names[entities : entities + count]
    return as_labels(relations), {"rhs": {operator: {kind: values[:count]}}, "lhs": {operator: {kind: values[count:]}}}


def _reversed(names: Labels) -> Labels:
    return pc.binary_join_element_wise(names, pa.scalar(REVERSE, names.type), pa.scalar("", names.type))
