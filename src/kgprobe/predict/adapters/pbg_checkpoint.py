"""Checkpoints of PyTorch-BigGraph: HDF5 files of embeddings and operators, and the names of their rows."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from kgprobe.bounded_files import read_bounded
from kgprobe.errors import DataError, UsageError
from kgprobe.graph.names import as_labels
from kgprobe.graph.text_files import whole_number
from kgprobe.predict.adapters.pbg_config import CONFIG, Config, differences, parse_config, read_config
from kgprobe.predict.adapters.pbg_scorers import OPERATORS, End, Parameters
from kgprobe.predict.adapters.pbg_tables import PbgFiles, open_files, read_names
from kgprobe.predict.adapters.score_files import FLOATS, ArraySpec
from kgprobe.predict.scorers import AnyScorer, Singles
from kgprobe.predict.stored_arrays import StoredArray, open_at, reading, require_shape
from kgprobe.predict.tasks import RelationCandidates
from kgprobe.resources import require_unpackable

if TYPE_CHECKING:
    from kgprobe.graph import KnowledgeGraph
    from kgprobe.graph.names import Labels

T = TypeVar("T")

VERSION = "checkpoint_version.txt"
RELATION_NAMES, RELATION_COUNT = "dynamic_rel_names.json", "dynamic_rel_count.txt"
_FORMAT_VERSION = 1
_ANY = -1
_MOST_BYTES = 1 << 10
_SHOWN = 10
_READABLE = tuple(kind for kind in FLOATS if kind != "bfloat16")


def is_pbg_checkpoint(folder: str | PathLike[str]) -> bool:
    """Whether a folder has a file of a checkpoint."""
    place = Path(folder)
    return (place / VERSION).is_file() or any(place.glob("model.v*.h5")) or any(place.glob("embeddings_*.v*.h5"))


def open_pbg_checkpoint(
    folder: str | PathLike[str], graph: KnowledgeGraph, triples: np.ndarray[Any, Any]
) -> tuple[str, AnyScorer, dict[str, Any], RelationCandidates | None]:
    """Open the checkpoint in a folder, at the version that its checkpoint_version.txt names.

    The names of entities and relations are looked for in the folder itself, then in the ``entity_path`` of the
    configuration. Rows are matched with the graph by these names.

    Returns:
        The name of the model, its scorer, its metadata, and its candidates if it has several entity types.

    Raises:
        DataError: Files are missing, damaged or contradict each other, or do not fit the graph; with all problems.
    """
    place = Path(folder)
    problems: list[str] = []
    files = _Checkpoint(place, problems).read()
    if files is None:
        remedy = (
            f"the folder needs {VERSION}, the .h5 files of that version and {CONFIG}; copy the names of entities "
            "(entity_names_TYPE_PART.json, a JSON list in the order of the rows) and of dynamic relations "
            f"({RELATION_NAMES}) there too, if they are not in the entity_path of {CONFIG}"
        )
        raise DataError(f"{place}: not a checkpoint of PyTorch-BigGraph", problems, remedy)
    return open_files(files, graph, triples)


def _h5py() -> Any:
    try:
        import h5py
    except ModuleNotFoundError:
        raise UsageError("checkpoints of PyTorch-BigGraph need h5py", remedy="pip install 'kgprobe[pbg]'") from None
    return h5py


def _in_h5(path: Path, problems: list[str], read: Callable[[Any], T]) -> T | None:
    """What is read from an HDF5 file; or None, with what went wrong appended to ``problems``."""
    h5py = _h5py()
    try:
        if not path.is_file():
            raise FileNotFoundError("no such file")
        with h5py.File(path, "r") as file:
            version = file.attrs.get("format_version")
            if not np.array_equal(version, _FORMAT_VERSION):
                problems.append(f"{path.name}: format_version is {str(version)[:40]}, expected {_FORMAT_VERSION}")
            return read(file)
    except Exception as error:  # HDF5 fails in many ways on a damaged file
        problems.append(f"{path.name}: {str(error)[:200] or type(error).__name__}")
        return None


@dataclass
class _Checkpoint:
    """Reads the files of a checkpoint, and collects what is wrong."""

    place: Path
    problems: list[str]
    version: int | None = field(init=False, default=None)

    def read(self) -> PbgFiles | None:
        """What the files hold; None if there are problems."""
        _h5py()
        self.version = self._version()
        config = self._config()
        if self.version is None or config is None:
            return None
        names_of = self._name_folders(config)
        arrays, names = {}, {}
        for kind, partitions in config.partitions.items():
            parts = [self._partition(kind, part, config.dimension) for part in range(partitions)]
            lists = [self._names(names_of, kind, part, array) for part, array in enumerate(parts)]
            arrays[kind] = [part for part in parts if part is not None]
            names[kind] = pa.chunked_array([some for some in lists if some is not None], pa.string()).combine_chunks()
        relations = self._relation_names(names_of, config)
        count = _ANY if relations is None else len(relations)
        parameters, global_embeddings = self._model(config, count)
        if self.problems:
            return None
        settings = {"version": self.version, "matched by name": ["entities", "relations"]}
        labels = {kind: some for kind, given in names.items() if (some := as_labels(given)) is not None}
        return PbgFiles(self.place, config, arrays, labels, relations, parameters, global_embeddings, settings)

    def _version(self) -> int | None:
        """The version of the checkpoint, if files of it can be there."""
        text = self._text(self.place / VERSION)
        if text is None:
            return None
        version = whole_number(text)
        if not version:
            self.problems.append(f"{VERSION}: {text[:40]!r}, expected the number of a version, from 1 on")
            return None
        if not (self.place / self._model_name(version)).exists():
            others = sorted(path.name for path in self.place.glob("model.v*.h5"))
            there = f"; there is {', '.join(others[:_SHOWN])}" if others else ""
            self.problems.append(
                f"{self._model_name(version)}: no such file, but {VERSION} has version {version}{there}"
            )
            return None
        return version

    def _text(self, path: Path) -> str | None:
        """The text in a small file."""
        try:
            with reading(path):
                return read_bounded(path, _MOST_BYTES).decode().strip()
        except DataError as error:
            self.problems += [f"{path.name}: {problem}" for problem in error.problems]
            return None

    @staticmethod
    def _model_name(version: int) -> str:
        return f"model.v{version}.h5"

    def _config(self) -> Config | None:
        """The configuration in config.json, or else in the model's file, where the library keeps a copy.

        The copy is what the checkpoint was trained with; config.json is overwritten when training is started again.
        """
        beside = read_config(self.place / CONFIG, self.problems) if (self.place / CONFIG).exists() else None
        if self.version is None:
            return beside
        name = self._model_name(self.version)
        found: list[str] = []
        text = _in_h5(self.place / name, found, lambda file: file.attrs.get("config/json"))
        where, given = f"{name}, its copy of {CONFIG}", isinstance(text, str | bytes)
        copy = parse_config(where, text, self.problems) if given and text is not None else None
        if beside is not None and copy is not None and (wrong := differences(beside, copy)):
            listed = ", ".join(wrong)
            self.problems.append(f"{CONFIG}: differs from the copy with which {name} was written, in: {listed}")
        if beside is None and copy is None and not self.problems:
            self.problems += found or [f"{CONFIG}: no such file, and {name} has no copy of it"]
        return beside or copy

    def _partition(self, kind: str, part: int, dimension: int) -> StoredArray | None:
        """The embeddings of a partition, of the right type and width."""
        path = self.place / f"embeddings_{kind}_{part}.v{self.version}.h5"

        def read(file: Any) -> StoredArray | None:
            dataset = _dataset(file, "embeddings")
            if dataset is None:
                self.problems.append(f"{path.name}: no dataset 'embeddings' in the file itself")
                return None
            spec = ArraySpec(path.name, "entities", None, (dimension,), _READABLE)
            wrong = spec.problems(dataset.shape, dataset.dtype.name)
            self.problems += wrong
            return None if wrong else stored_dataset(path, dataset)

        return _in_h5(path, self.problems, read)

    def _name_folders(self, config: Config) -> Sequence[Path]:
        """Where the names may be: here; in ``entity_path``, relative to where training ran or to this process."""
        given = Path(config.entity_path.removeprefix("file://"))
        trained = Path(config.checkpoint_path.removeprefix("file://"))
        whole = self.place.resolve()
        steps = len(trained.parts)
        below = not trained.is_absolute() and 0 < steps <= len(whole.parts) and whole.parts[-steps:] == trained.parts
        roots = [Path(*whole.parts[:-steps])] if below else []
        return [self.place, *([root / given for root in roots] if config.entity_path else []), given]

    def _find(self, folders: Sequence[Path], name: str) -> Path | None:
        """The first file with a name."""
        found = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if found is None:
            places = ", ".join(dict.fromkeys(str(folder) for folder in folders))
            self.problems.append(f"{name}: no such file in {places}")
        return found

    def _names(self, folders: Sequence[Path], kind: str, part: int, array: StoredArray | None) -> Labels | None:
        """The names of a partition, one for each row."""
        path = self._find(folders, f"entity_names_{kind}_{part}.json")
        names = None if path is None else self._name_list(path)
        if path is None or names is None:
            return None
        self._compare(path.with_name(f"entity_count_{kind}_{part}.txt"), len(names), path.name)
        if array is not None and len(names) != array.shape[0]:
            self.problems.append(
                f"{path.name}: {len(names):,} names, but {array.path.name} has {array.shape[0]:,} rows"
            )
        return names

    def _name_list(self, path: Path) -> Labels | None:
        try:
            with reading(path):
                return read_names(path)
        except DataError as error:
            self.problems += [f"{path.name}: {problem}" for problem in error.problems]
            return None

    def _compare(self, path: Path, size: int, names: str) -> None:
        """Compare a count in a file, if there is one, with the number of names."""
        text = self._text(path) if path.exists() else None
        if text is not None and whole_number(text) != size:
            self.problems.append(f"{path.name}: {text[:40]!r}, but {names} has {size:,} names")

    def _relation_names(self, folders: Sequence[Path], config: Config) -> Labels | None:
        """The names of the relations, in the order of their parameters."""
        if not config.dynamic:
            return pa.array([relation.name for relation in config.relations], pa.string())
        path = self._find(folders, RELATION_NAMES)
        names = None if path is None else self._name_list(path)
        if path is not None and names is not None:
            self._compare(path.with_name(RELATION_COUNT), len(names), path.name)
        return names

    def _model(self, config: Config, relations: int) -> tuple[dict[End, dict[str, Parameters]], dict[str, Singles]]:
        """The parameters of the operators, and the global embeddings."""
        path = self.place / self._model_name(self.version or 0)
        slots = list(_slots(config, relations))

        def read(file: Any) -> list[Singles]:
            datasets = _datasets(file)
            wrong = _misfits(slots, datasets)
            self.problems += [f"{path.name}: {problem}" for problem in wrong]
            require_unpackable(sum(4 * abs(math.prod(slot.shape)) for slot in slots))
            return [] if wrong or relations < 0 else [slot.read(datasets) for slot in slots]

        found = _in_h5(path, self.problems, read) or []
        bad = [slot.name for slot, values in zip(slots, found, strict=False) if not np.isfinite(values).all()]
        self.problems += [f"{path.name}: {name} holds NaN, infinity or numbers beyond float32" for name in bad[:_SHOWN]]
        stacks: dict[End, dict[str, dict[str, list[Singles]]]] = {}
        for end in _ends(config):
            stacks[end] = {relation.operator: {} for relation in config.relations}
        global_embeddings = {}
        for slot, values in zip(slots, found, strict=False):
            if slot.end is None:
                global_embeddings[slot.owner] = values
            else:
                stacks[slot.end][slot.owner].setdefault(slot.parameter, []).append(values)
        join = np.concatenate if config.dynamic else np.stack
        parameters: dict[End, dict[str, Parameters]] = {
            end: {operator: {name: join(parts) for name, parts in own.items()} for operator, own in each.items()}
            for end, each in stacks.items()
        }
        return parameters, global_embeddings


def _ends(config: Config) -> tuple[End, ...]:
    """The sides that have operators."""
    return ("lhs", "rhs") if config.dynamic else ("rhs",)


@dataclass(frozen=True)
class _Slot:
    """A parameter of a model in its file.

    Attributes:
        name: Its name there.
        shape: Its shape; the first number is -1 if the number of relations is not known.
        owner: The operator, or the entity type of a global embedding.
        end: The side of the operator; None for a global embedding.
        parameter: The parameter of the operator.
        old: The name that the first versions gave it, whose matrices are transposed.
    """

    name: str
    shape: tuple[int, ...]
    owner: str
    end: End | None = None
    parameter: str = ""
    old: str | None = None

    def read(self, datasets: Mapping[str, Any]) -> Singles:
        """The values, of which there is one form."""
        with np.errstate(over="ignore"):  # values that are not finite are reported by the caller
            if self.old is not None and self.old in datasets:
                return np.asarray(datasets[self.old][...], dtype=np.float32).swapaxes(-1, -2)
            return np.asarray(datasets[self.name][...], dtype=np.float32)


def _slots(config: Config, relations: int) -> Iterator[_Slot]:
    """All parameters that the file of a model must have."""
    for end in _ends(config):
        for number, relation in enumerate(config.relations):
            for parameter, shape in OPERATORS[relation.operator].shapes(config.dimension).items():
                where = f"relations/{number}/operator/{end}/"
                several = "s" if config.dynamic and parameter not in ("real", "imag") else ""
                matrix = relation.operator == "affine" and parameter == "linear_transformation"
                yield _Slot(
                    f"{where}{parameter}{several}",
                    (relations, *shape) if config.dynamic else shape,
                    relation.operator,
                    end,
                    parameter,
                    f"{where}rotation{several}" if matrix else None,
                )
    if config.global_emb:
        for kind in config.partitions:
            yield _Slot(f"entities/{kind}/global_embedding", (config.dimension,), kind)


def _misfits(slots: Sequence[_Slot], datasets: Mapping[str, Any]) -> list[str]:
    """Parameters that are missing, not expected, or of the wrong shape or type."""
    found, known = [], set[str]()
    for slot in slots:
        names = [name for name in (slot.name, slot.old) if name is not None and name in datasets]
        known.update(names)
        if len(names) != 1:
            both = f"both {slot.name!r} and its old form {slot.old!r}"
            found.append(both if names else f"no parameter {slot.name!r}")
        elif not _fits(shape := datasets[names[0]].shape, slot.shape):
            found.append(f"{names[0]} has shape {shape}, expected {slot.shape}")
        elif (kind := datasets[names[0]].dtype.name) not in _READABLE:
            found.append(f"{names[0]} holds {kind}, expected {', '.join(_READABLE)}")
    others = sorted(datasets.keys() - known)
    listed = ", ".join(repr(name)[:80] for name in others[:_SHOWN])
    if others:
        found.append(f"{len(others):,} parameters that {CONFIG} has no use for: {listed}")
    return found


def _fits(shape: tuple[int, ...], expected: tuple[int, ...]) -> bool:
    return len(shape) == len(expected) and all(size in (_ANY, own) for own, size in zip(shape, expected, strict=True))


def _dataset(group: Any, name: str) -> Any:
    """A dataset whose numbers are in the file itself; None if there is none."""
    h5py = _h5py()
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        return None
    found = group[name]
    own = isinstance(found, h5py.Dataset) and not found.is_virtual and found.external is None
    return found if own else None


def _datasets(file: Any) -> dict[str, Any]:
    """The parameters in the file of a model by name. Links to other files are not followed."""
    h5py = _h5py()
    found: dict[str, Any] = {}
    if isinstance(file.get("model", getlink=True), h5py.HardLink) and isinstance(file["model"], h5py.Group):
        group = file["model"]
        names: list[str] = []
        group.visit(names.append)
        for name in names:
            parent, _, own = name.rpartition("/")
            dataset = _dataset(group[parent] if parent else group, own)
            if dataset is not None:
                found[name] = dataset
    return found


def stored_dataset(path: Path, dataset: Any) -> StoredArray:
    """A dataset of HDF5 as an array in its file, which is memory-mapped if it is contiguous there.

    Datasets in chunks, compressed or not, are read into memory, if they are not too large for it.
    """
    h5d, h5t = _h5py().h5d, _h5py().h5t
    kind, shape = dataset.dtype, dataset.shape  # one of `_READABLE`
    require_shape(path.name, shape, kind)
    size = math.prod(shape) * kind.itemsize
    offset = dataset.id.get_offset()
    contiguous = dataset.id.get_create_plist().get_layout() == h5d.CONTIGUOUS and offset is not None
    # A number type that NumPy does not have is converted to one that it has.
    if contiguous and dataset.id.get_type() == h5t.py_create(kind):
        if path.stat().st_size < offset + size:
            raise ValueError(f"truncated: {path.stat().st_size:,} bytes, expected {offset + size:,}")
        return StoredArray(path, path.name, kind.name, kind, shape, partial(open_at, path, offset), offset)
    require_unpackable(size, "the dataset, which is stored in chunks,")
    numbers = np.ascontiguousarray(dataset[...])
    return StoredArray(path, path.name, kind.name, kind, shape, lambda: io.BytesIO(numbers.tobytes()), None)
