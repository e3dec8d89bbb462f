"""Metadata of a rank table: the setting that was ranked, what was assumed and what was verified, and its JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from kgprobe.bounded_files import parse_json
from kgprobe.errors import DataError, shown

SCHEMA_VERSION = 2
_METADATA_KEY = b"kgprobe"


@cache
def package_version() -> str:
    """The version of kgprobe."""
    try:
        return version("kgprobe")
    except PackageNotFoundError:  # run from a source tree
        return "0+source"


class Basis(StrEnum):
    """How the candidates of a rank table are known."""

    verified = "verified"
    """kgprobe ranked against all entities that the filter leaves."""
    given = "given"
    """kgprobe ranked against candidate sets that the user gave. They cannot be counted from the graph."""
    recorded = "recorded"
    """The ranks were imported, and the imported file has the candidate counts."""
    assumed = "assumed"
    """The ranks were imported. Their file has no candidate counts, so a filter was assumed to count them."""


@dataclass(frozen=True)
class SampleInfo:
    """A sample of candidates that was ranked in place of all candidates.

    Attributes:
        negatives: Number of sampled candidates of each query; where filter or graph leave fewer, all of them.
        estimates: Whether the ranks estimate those among all candidates, from a sample that kgprobe drew. Otherwise
            they are ranks among the sample alone, which are better than those among all candidates.
        exact: The candidates that were all counted beside the sample; None if there are none.
        seed: The seed of the draws; None for a sample that the user gave.

    Example:
        >>> str(SampleInfo(500)), str(SampleInfo(1000, estimates=True, exact="relation-type", seed=0))
        ('sampled, 500 negatives', 'estimated from all relation-type candidates and a sample of 1,000 others, seed 0')
    """

    negatives: int
    estimates: bool = False
    exact: str | None = None
    seed: int | None = None

    def __str__(self) -> str:
        if not self.estimates:
            return f"sampled, {self.negatives:,} negatives"
        of = f"all {self.exact} candidates and a sample of {self.negatives:,} others" if self.exact else ""
        return f"estimated from {of or f'a sample of {self.negatives:,} candidates'}, seed {self.seed}"

    @property
    def warning(self) -> str:
        """What a user of metrics of these ranks has to know."""
        if self.estimates:
            return f"ranks are {self}: values are estimates with intervals for the sampling of candidates"
        return (
            f"ranks are {self}: values are better than those among all candidates, and the order of models may differ"
        )


@dataclass(frozen=True)
class CandidatesInfo:
    """Where the candidates of a rank table come from.

    Attributes:
        basis: How they are known.
        name: Name of the candidate set, as the user gave it.
        hash: SHA-256 of the file of the candidate set, or of its content if it was no file.
        counted: How the counts of imported ranks were found.
        sample: The sample of candidates that was ranked; None if all were.

    Example:
        >>> str(CandidatesInfo(Basis.given, "types.tsv")), str(CandidatesInfo(Basis.verified))
        ('types.tsv', 'all entities')
        >>> str(CandidatesInfo(Basis.given, "negatives.npz", sample=SampleInfo(500)))
        'sampled, 500 negatives: negatives.npz'
    """

    basis: Basis
    name: str = "all entities"
    hash: str | None = None
    counted: str | None = None
    sample: SampleInfo | None = None

    def __str__(self) -> str:
        name = self.name if self.hash is None else f"{self.name} (SHA-256 {self.hash[:12]})"
        return name if self.sample is None else f"{self.sample}: {name}"


class Assumption(StrEnum):
    """What an import took for granted: the imported file does not show it, and no check can verify it.

    Example:
        >>> Assumption.filtered.meaning
        'the known answers of the graph were filtered (the file has no candidate counts)'
    """

    filtered = "filtered"
    unfiltered = "unfiltered"
    mean_ranks = "mean_ranks"
    optimistic_ranks = "optimistic_ranks"
    pessimistic_ranks = "pessimistic_ranks"
    zero_based = "zero_based"
    inverse_relations = "inverse_relations"

    @property
    def meaning(self) -> str:
        """The assumption in words."""
        return _ASSUMED[self]


_ASSUMED = {
    Assumption.filtered: "the known answers of the graph were filtered (the file has no candidate counts)",
    Assumption.unfiltered: "the ranks are unfiltered, so that all entities are candidates",
    Assumption.mean_ranks: "the ranks are mean ranks of their tie groups (ties are not recorded)",
    Assumption.optimistic_ranks: "the ranks of the file are optimistic: the best of their tie groups",
    Assumption.pessimistic_ranks: "the ranks of the file are pessimistic: the worst of their tie groups",
    Assumption.zero_based: "the ranks of the file count from 0",
    Assumption.inverse_relations: "relation ids beyond those of the graph are inverse relations, so head queries",
}


class Verification(StrEnum):
    """What an import verified on all rows of the imported files."""

    in_graph = "in_graph"
    """Every ranked triple is in the graph."""
    in_split = "in_split"
    """Every ranked triple is in the split that is recorded."""
    candidates = "candidates"
    """The candidate counts of the file are those that filtering by all splits of the graph leaves."""


@dataclass(frozen=True)
class ImportInfo:
    """How imported ranks were read.

    Attributes:
        source: Names of the imported files.
        format: Their formats.
        popularity: Where the popularity of the targets comes from.
        notes: What the user should know about how the files were read.
        assumed: What was taken for granted.
        verified: What was verified.
    """

    source: tuple[str, ...]
    format: str
    popularity: str | None = None
    notes: tuple[str, ...] = ()
    assumed: tuple[Assumption, ...] = ()
    verified: tuple[Verification, ...] = ()


@dataclass(frozen=True)
class WorldInfo:
    """The open world that was ranked.

    Attributes:
        world: "open" or "closed".
        sides: "tail" for tail queries, each of which has a known answer; "both" for an ordinary test set.
        train_share: Share of the known triples that is in train, if the world was split by it.
        model_hash: SHA-256 of the ranked model.
        split: How the world was made.
        task: How the ranked triples were chosen.
    """

    world: str
    sides: str | None = None
    train_share: float | None = None
    model_hash: str | None = None
    split: dict[str, Any] = field(default_factory=dict)
    task: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class UnmatchedAnswer:
    """An answer of top-k lists that is not exactly one entity, and how often it occurs."""

    answer: str
    times: int


_MATCHED = {
    "by_label": "matched by label",
    "by_id": "matched by id",
    "by_name": "matched by name",
    "by_folding": "matched after folding case, Unicode form and spaces",
    "without_marks": "matched without list marks",
    "by_nearest": "matched to the nearest name",
}
_UNKNOWN = {"drop": "left out", "keep-as-wrong": "counted as wrong"}


@dataclass(frozen=True)
class ListsInfo:
    """How the answers of top-k lists were matched to entities.

    Attributes:
        unlisted: How candidates outside a list were ranked: "unknown" or "tied".
        unknown: What became of answers that are not exactly one entity: "error", "drop" or "keep-as-wrong".
        duplicates: What became of answers that a list has twice: "error" or "first".
        nearest: Least similarity at which an answer was matched to the nearest name; None if it was not.
        answers: Number of answers.
        by_label: Number of answers that are a label.
        by_id: Number of answers that are an id.
        by_name: Number of answers that are a name.
        by_folding: Number of answers that are a label or a name but for case, Unicode form and spaces.
        without_marks: Number of answers that are so without the marks of list items and quotations.
        by_nearest: Number of answers that were matched to the nearest name.
        ambiguous: Number of answers that stand for several entities.
        not_found: Number of answers that stand for none.
        repeated: Number of answers that were left out because their list has them already.
        frequent: The most frequent answers that were not matched.

    Example:
        >>> print(ListsInfo("unknown", "drop", "error", answers=5, by_name=3, by_folding=1, not_found=1))
        5 answers: 3 matched by name, 1 matched after folding case, Unicode form and spaces, 1 unknown (left out)
    """

    unlisted: str
    unknown: str
    duplicates: str
    nearest: float | None = None
    answers: int = 0
    by_label: int = 0
    by_id: int = 0
    by_name: int = 0
    by_folding: int = 0
    without_marks: int = 0
    by_nearest: int = 0
    ambiguous: int = 0
    not_found: int = 0
    repeated: int = 0
    frequent: tuple[UnmatchedAnswer, ...] = ()

    def __str__(self) -> str:
        became = f" ({_UNKNOWN[self.unknown]})" if self.unknown in _UNKNOWN else ""
        parts = [(getattr(self, name), text) for name, text in _MATCHED.items()]
        parts += [(self.ambiguous, f"ambiguous{became}"), (self.not_found, f"unknown{became}")]
        parts += [(self.repeated, "repeated" + (" (only the first one counts)" if self.duplicates == "first" else ""))]
        said = ", ".join(f"{count:,} {text}" for count, text in parts if count)
        frequent = ", ".join(
            f"{shown(one.answer, most=40)} ({one.times:,} time{'s' * (one.times > 1)})" for one in self.frequent
        )
        return f"{self.answers:,} answers: {said or 'none'}" + (f"; not matched: {frequent}" if frequent else "")


@dataclass(frozen=True)
class CheckpointInfo:
    """A trained checkpoint that was ranked.

    Attributes:
        seed: The training seed.
        epoch: The epoch of the checkpoint.
        score: Its validation score; None for a snapshot.
    """

    seed: int
    epoch: int
    score: float | None = None


@dataclass(frozen=True)
class TrainingInfo:
    """How the ranked model was trained.

    Attributes:
        selected_by: The metric that selected the checkpoints; empty for snapshots.
        checkpoints: The checkpoint of each seed.
        settings: The settings of the training.
    """

    selected_by: str
    checkpoints: tuple[CheckpointInfo, ...]
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RanksInfo:
    """Metadata of a rank table, stored in the Parquet file. Fields that are not known are None.

    Attributes:
        model: Name of the model.
        graph: Name of the graph.
        graph_hash: Content hash of the graph.
        split: The split that was ranked.
        filtered: The splits whose known triples were filtered; assumed if the basis of the candidates is.
        filter_hash: Hash of the known triples that kgprobe filtered.
        candidates: Where the candidates come from.
        imported: How the ranks were imported, if they were.
        world: The open world that was ranked, if it was one.
        training: How the model was trained, if kgprobe trained it.
        lists: How answers were matched to entities, if top-k lists were ranked.
        settings: Further settings, such as those of the model. They are shown, never interpreted.
        schema: Version of this metadata.
        kgprobe: Version of kgprobe that wrote the file.

    Example:
        >>> RanksInfo.from_metadata(RanksInfo(model="RotatE", graph="umls").to_metadata()).model
        'RotatE'
    """

    model: str | None = None
    graph: str | None = None
    graph_hash: str | None = None
    split: str | None = None
    filtered: tuple[str, ...] | None = None
    filter_hash: str | None = None
    candidates: CandidatesInfo | None = None
    imported: ImportInfo | None = None
    world: WorldInfo | None = None
    training: TrainingInfo | None = None
    lists: ListsInfo | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA_VERSION
    kgprobe: str = field(default_factory=package_version)

    @property
    def sample(self) -> SampleInfo | None:
        """The sample of candidates that was ranked; None if all were, or if it is not recorded."""
        return None if self.candidates is None else self.candidates.sample

    def to_metadata(self) -> dict[bytes, bytes]:
        return {_METADATA_KEY: json.dumps(asdict(self), sort_keys=True).encode()}

    @classmethod
    def from_metadata(cls, metadata: dict[bytes, bytes] | None) -> RanksInfo:
        """Read the metadata of a Parquet file; all fields are None if it has none.

        Raises:
            DataError: They are not the JSON that kgprobe writes; every problem is listed.

        Example:
            >>> RanksInfo.from_metadata({b"kgprobe": b'{"schema": 2, "filtered": 5, "model": ["a"]}'})
            Traceback (most recent call last):
            ...
            kgprobe.errors.DataError: the kgprobe metadata of this file cannot be read
              - model is ['a'], expected text
              - filtered is 5, expected a list
            Remedy: write the file again
        """
        if not metadata or _METADATA_KEY not in metadata:
            return cls(kgprobe="")
        try:
            entry = parse_json(metadata[_METADATA_KEY])
        except ValueError:
            raise _unreadable(["it is not the JSON that kgprobe writes"]) from None
        problems: list[str] = []
        info: RanksInfo = _of_json(cls, _migrated(entry) if isinstance(entry, dict) else entry, "the entry", problems)
        if problems:
            raise _unreadable(problems)
        return replace(info, schema=SCHEMA_VERSION)


def merged(infos: Sequence[RanksInfo]) -> RanksInfo:
    """The metadata on which several tables agree.

    Raises:
        DataError: Their candidates were sampled in different ways, or only in some of them.

    Example:
        >>> merged([RanksInfo(model="a", graph="umls"), RanksInfo(model="b", graph="umls")]).graph
        'umls'
    """
    first = infos[0]
    if len({(info.sample, info.candidates if info.sample else None) for info in infos}) > 1:
        found = dict.fromkeys(f"{info.model or 'table'}: {info.candidates or 'not recorded'}" for info in infos)
        remedy = "rank all parts with the same candidates, for example both sides in one run"
        raise DataError("the candidates of these tables were sampled in different ways", list(found), remedy)
    agreed = {
        one.name: getattr(first, one.name)
        for one in fields(RanksInfo)
        if all(getattr(info, one.name) == getattr(first, one.name) for info in infos)
    }
    settings = {k: v for k, v in first.settings.items() if all(k in i.settings and i.settings[k] == v for i in infos)}
    return RanksInfo(**agreed | {"settings": settings})


def _unreadable(problems: list[str]) -> DataError:
    return DataError("the kgprobe metadata of this file cannot be read", problems, "write the file again")


_NAMES: dict[type, str] = {
    bool: "true or false",
    str: "text",
    int: "a whole number",
    float: "a number",
    dict: "an object",
    tuple: "a list",
}


def _of_json(kind: Any, value: Any, place: str, problems: list[str]) -> Any:
    """A JSON value as this type; None, with a problem added, if it has another one."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:  # a type or None
        return None if value is None else _of_json(inner[0], value, place, problems)
    if is_dataclass(kind) and isinstance(value, dict):
        return _fields_of_json(kind, value, place, problems)
    if origin is tuple and isinstance(value, list):
        return tuple(_of_json(inner[0], item, f"{place}[{i}]", problems) for i, item in enumerate(value))
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if isinstance(value, str) and value in list(kind):
            return kind(value)
        expected = f"one of {', '.join(kind)}"
    else:
        plain = origin or kind
        if type(value) is plain or (plain is float and type(value) is int):
            return value
        expected = "an object" if is_dataclass(kind) else _NAMES[plain]
    problems.append(f"{place} is {shown(value)}, expected {expected}")
    return None


def _fields_of_json(kind: Any, entry: dict[str, Any], place: str, problems: list[str]) -> Any:
    types = get_type_hints(kind)
    values = {}
    for one in fields(kind):
        path = one.name if kind is RanksInfo else f"{place}.{one.name}"
        if one.name in entry:
            values[one.name] = _of_json(types[one.name], entry[one.name], path, problems)
        elif one.default is MISSING and one.default_factory is MISSING:
            problems.append(f"{path} is missing")
            values[one.name] = None
    return kind(**values)


def _migrated(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry in the present schema. Schema 1 kept what is a field now among the settings."""
    schema = entry.get("schema")
    if type(schema) is int and schema > SCHEMA_VERSION:
        raise DataError(
            "this file was written by a newer kgprobe",
            [f"its rank table has schema {schema}, this version reads up to {SCHEMA_VERSION}"],
            "upgrade kgprobe",
        )
    if schema is None:
        return entry | {"schema": None}  # refused as a wrong type
    settings = entry.get("settings")
    if schema != 1 or not isinstance(settings, dict):
        return entry
    settings = dict(settings)
    found: dict[str, Any] = {}
    name, digest = settings.pop("candidates", None), settings.pop("candidates_hash", None)
    if "format" in settings and "source" in settings:
        kept = ("source", "format", "popularity", "notes")
        found["imported"] = {key: settings.pop(key) for key in kept if key in settings}
        known = isinstance(name, str) and set(name.split("; ")) <= {"as in the file", "entities minus filtered"}
        found["candidates"] = {"basis": Basis.recorded if known else Basis.assumed, "counted": name}
    elif name is not None:
        found["candidates"] = {"basis": Basis.given, "name": name, "hash": digest}
    elif entry.get("graph_hash") is not None:
        found["candidates"] = {"basis": Basis.verified}
    if "training" in settings and "checkpoints" in settings:
        found["training"] = {
            "selected_by": settings.pop("selected_by", ""),
            "checkpoints": settings.pop("checkpoints"),
            "settings": settings.pop("training"),
        }
    if "world" in settings:
        split, task = settings.pop("split", {}), settings.pop("task", {})
        found["world"] = {
            "world": settings.pop("world"),
            "sides": task.pop("sides", None) if isinstance(task, dict) else None,
            "train_share": split.get("train_share") if isinstance(split, dict) else None,
            "model_hash": settings.pop("model_hash", None),
            "split": split,
            "task": task,
        }
    return entry | found | {"settings": settings}
