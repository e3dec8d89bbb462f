"""The folder of a study: its study file, the folders of ranks that it was given, finished work, and verdicts.

    study.toml                      a copy of the study
    sources.json                    the given folders of rank files
    verdicts.json                   the verdicts, with a key of all that they depend on
    ranks/GRAPH/MODEL.parquet       ranks of the study's own models; MODEL.json records what they were made from
    runs/GRAPH/MODEL-KEY            training runs
    openworld/                      the open world, its runs, and the ranks of their snapshots in both worlds

Finished work has a key, the hash of all that it was made from. Work with another key is done again.
"""

from __future__ import annotations

import hashlib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from kgprobe.comparison.lineup import Flag
from kgprobe.errors import DataError, UsageError, shown
from kgprobe.files import Lock, refuse_overwriting, replacing, require_writable
from kgprobe.json_files import content_hash, read_json, write_json
from kgprobe.studies.study_file import Study, read_study
from kgprobe.studies.verdicts import Answer, Verdict

STUDY, SOURCES, VERDICTS = "study.toml", "sources.json", "verdicts.json"
OWN = "own"
"""The source of the ranks of the study's own models."""

_LOCK = ".lock"
_SCHEMA = 1
_JUDGES = ("aggregate", "audit", "comparison", "metrics", "studies", "transform.py")
"""The packages that verdicts depend on."""

_AGAIN = "run the study again: kgprobe study run"


@dataclass(frozen=True)
class GivenFolders:
    """The folders of rank files that a study was given.

    Attributes:
        ranks: Folders with ``GRAPH/MODEL.parquet``, by the name of the source; several may be one source.
        pairs: Folders with ranks in an open and a closed world.
    """

    ranks: Mapping[str, tuple[Path, ...]]
    pairs: tuple[Path, ...] = ()

    @classmethod
    def of(cls, ranks: Sequence[str | os.PathLike[str]], pairs: Sequence[str | os.PathLike[str]]) -> GivenFolders:
        """Check the folders that a user gave, as FOLDER or NAME=FOLDER; those with the same NAME are one source.

        Example:
            >>> GivenFolders.of(["no such folder"], [])
            Traceback (most recent call last):
            ...
            kgprobe.errors.UsageError: invalid `ranks` or `pairs`
              - ...no such folder: no such folder
            Remedy: give folders with rank files GRAPH/MODEL.parquet, as FOLDER or NAME=FOLDER
        """
        problems: list[str] = []
        named: dict[str, tuple[Path, ...]] = {}
        for text in ranks:
            name, folder, is_chosen = _named(text)
            if not folder.is_dir():
                problems.append(f"{folder}: no such folder")
            elif name == OWN:
                problems.append(f"{folder}: the name '{OWN}' is kept for the models of the study; write NAME={folder}")
            elif name in named and not is_chosen:
                problems.append(f"{folder}: another folder is named '{name}'; write NAME={folder}")
            named[name] = tuple(dict.fromkeys((*named.get(name, ()), folder)))
        folders = tuple(Path(os.path.abspath(folder)) for folder in pairs)
        problems += [f"{folder}: no such folder" for folder in folders if not folder.is_dir()]
        if problems:
            remedy = "give folders with rank files GRAPH/MODEL.parquet, as FOLDER or NAME=FOLDER"
            raise UsageError("invalid `ranks` or `pairs`", problems, remedy)
        return cls(named, folders)

    def also(self, others: GivenFolders) -> GivenFolders:
        """These folders and others; those of the same name replace these."""
        return GivenFolders({**self.ranks, **others.ranks}, tuple(dict.fromkeys((*self.pairs, *others.pairs))))

    @property
    def folders(self) -> list[Path]:
        """All folders."""
        return [*(folder for own in self.ranks.values() for folder in own), *self.pairs]

    @property
    def vanished(self) -> list[str]:
        """One line for each folder that is no longer there."""
        named = [(folder, f"{folder} (the ranks '{name}')") for name, own in self.ranks.items() for folder in own]
        named += [(folder, str(folder)) for folder in self.pairs]
        return [text for folder, text in named if not folder.is_dir()]


def _named(text: str | os.PathLike[str]) -> tuple[str, Path, bool]:
    """The name of a source, its folder, and whether the user chose the name."""
    name, equals, folder = os.fspath(text).partition("=")
    if isinstance(text, str) and equals and name and not Path(text).is_dir():
        return name, Path(os.path.abspath(folder)), True
    path = Path(os.path.abspath(text))
    return path.name, path, False


def file_name(name: str) -> str:
    """The name of a graph or model as a part of file names: readable, and different for different names.

    Example:
        >>> file_name("FB15k-237"), file_name("a/b")
        ('FB15k-237', 'a_b-c14cddc0')
    """
    safe = re.sub(r"[^\w.+=-]", "_", name)[:80]
    if safe == name and not safe.startswith("."):
        return safe
    return f"{safe.lstrip('.')}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, or of the names and contents of all files in a folder."""
    if path.is_dir():
        inside = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
        return content_hash({str(file.relative_to(path)): file_digest(file) for file in inside})
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


class Kept:
    """Files of finished work, and the record of what they were made from.

    Args:
        record: The record, a JSON file beside the files.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "ranks.parquet").write_text("ranks")
        >>> kept = Kept(folder / "ranks.json")
        >>> kept.finish("a key", [folder / "ranks.parquet"])
        >>> kept.is_finished("a key"), kept.is_finished("another")
        (True, False)
    """

    def __init__(self, record: Path) -> None:
        self.path = record

    def _read(self) -> dict[str, Any]:
        try:
            return read_json(self.path, {"key": str, "files": dict}) if self.path.exists() else {}
        except DataError:  # half-copied or edited: the work is done again
            return {}

    @property
    def files(self) -> list[Path]:
        """The files, if all of them are there and unchanged; else an empty list."""
        recorded: Mapping[str, str] = self._read().get("files", {})
        found = {self.path.parent / name: digest for name, digest in recorded.items()}
        whole = all(file.is_file() and file_digest(file) == digest for file, digest in found.items())
        return list(found) if whole else []

    @property
    def reason(self) -> str | None:
        """Why the work could not be done, the last time that it was tried."""
        reason = self._read().get("reason")
        return reason if isinstance(reason, str) else None

    def is_finished(self, key: str) -> bool:
        return self._read().get("key") == key and bool(self.files)

    def finish(self, key: str, files: Sequence[Path]) -> None:
        """Record that the work is done."""
        write_json(self.path, {"key": key, "files": {file.name: file_digest(file) for file in files}})

    def fail(self, key: str, reason: str) -> None:
        """Record that the work could not be done."""
        write_json(self.path, {"key": key, "files": {}, "reason": reason})

    def discard_others(self, key: str) -> None:
        """Remove the files of work with another key, so that they are not taken for those of this study."""
        recorded = self._read()
        if recorded and recorded["key"] != key:
            for name in recorded["files"]:
                (self.path.parent / name).unlink(missing_ok=True)
            self.path.unlink()


class StudyFolder:
    """The folder of a study.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(path))

    def ranks_of(self, graph: str, model: str) -> Kept:
        """The ranks of one of the study's own models."""
        return Kept(self.path / "ranks" / file_name(graph) / f"{file_name(model)}.json")

    def pairs_of(self, model: str) -> Kept:
        """The ranks of a model in the open and the closed world."""
        return Kept(self.pairs / file_name(model) / "evaluated.json")

    @property
    def runs(self) -> Path:
        return self.path / "runs"

    @property
    def openworld(self) -> Path:
        return self.path / "openworld"

    @property
    def pairs(self) -> Path:
        return self.openworld / "pairs"

    def read(self) -> tuple[Study, GivenFolders]:
        """The study and the folders that it was given.

        Raises:
            DataError: There is no study, it is damaged, or rank files that it was given are no longer there.
        """
        if absent := [name for name in (STUDY, SOURCES) if not (self.path / name).is_file()]:
            problem = f"it has no {' and no '.join(absent)}" if self.path.is_dir() else "there is no such folder"
            raise DataError(
                f"{self.path}: not a folder of a study", [problem], "give one that 'kgprobe study run' wrote"
            )
        recorded = self._recorded()
        given = _given(recorded)
        gone = given.vanished + [path for path in recorded.get("files", []) if not Path(path).is_file()]
        if gone:
            raise DataError(f"{self.path}: rank files of this study are no longer there", gone, _AGAIN)
        return self._copy(recorded), given

    def _copy(self, recorded: Mapping[str, Any]) -> Study:
        """The copy of the study, with relative paths from the folder of its original."""
        return _at(read_study(self.path / STUDY), Path(recorded["study"]))

    @property
    def inputs(self) -> list[Path]:
        """The folders that a report is made from, which it must not overwrite."""
        return [self.path / "ranks", self.runs, self.openworld, *_given(self._recorded()).folders]

    def _recorded(self) -> dict[str, Any]:
        path = self.path / SOURCES
        known = {"study": str, "ranks": dict, "pairs": list, "files": list}
        return read_json(path, known, _AGAIN) if path.exists() else {}

    def prepared(self, study: Study, given: GivenFolders, *, update: bool) -> tuple[Study, GivenFolders]:
        """The study and all folders that it has now been given; nothing is written.

        Args:
            study: The study.
            given: The folders that are given now. Those that were given before still count, unless it is an update.
            update: Whether the folder may hold another study, and forgets the folders that it was given before.

        Raises:
            UsageError: The folder holds something else.
            DataError: A folder that was given before is no longer there.
        """
        recorded, copy = self._recorded(), self.path / STUDY
        own = bool(recorded) and study.path.resolve() == copy.resolve()
        refuse_overwriting([copy], [*([] if own else [study.path]), *given.folders])
        self._require_room()
        if own:
            study = self._copy(recorded)
        elif copy.exists() and not update:
            self._require_same(study)
        if not update:
            given = _given(recorded).also(given)
        if gone := given.vanished:
            remedy = "give the new place as `ranks` NAME=FOLDER, or leave them out with `update=True`"
            raise DataError(f"{self.path}: rank files that this study was given are no longer there", gone, remedy)
        return study, given

    def _require_room(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise UsageError(f"{self.path}: it is a file, not a folder", remedy="choose another `output`")
        if not self.path.exists() or (self.path / SOURCES).exists():
            return
        others = sorted(entry.name for entry in self.path.iterdir() if not entry.name.startswith("."))
        if others:
            named = ", ".join(others[:5]) + (f" and {len(others) - 5:,} more" if len(others) > 5 else "")
            remedy = "choose a new or an empty folder as `output`"
            raise UsageError(f"{self.path}: it holds other files than those of a study", [named], remedy)

    def _require_same(self, study: Study) -> None:
        try:
            old = tomllib.loads((self.path / STUDY).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            old = {}
        if changed := list(_differences(old, tomllib.loads(study.text))):
            remedy = "continue with `update=True`, which keeps all finished work that still applies, or choose another "
            raise UsageError(f"{self.path}: the folder holds another study", changed, f"{remedy}`output`")

    def lock(self) -> Lock:
        """Lock the folder for this process."""
        require_writable(self.path / STUDY)
        return Lock(self.path / _LOCK, "running the study of this folder")

    def begin(self, study: Study, given: GivenFolders) -> None:
        """Write the copy of the study and the folders that it was given, which make the folder that of a study."""
        self.record_files(study, given, self._recorded().get("files", []))
        with replacing(self.path / STUDY) as temporary:
            temporary.write_text(study.text, encoding="utf-8", newline="")
            read = _at(read_study(temporary), study.path)
            if changed := [one.name for one in fields(Study) if getattr(read, one.name) != getattr(study, one.name)]:
                title = f"{study.path}: the study was changed after it was read"
                raise UsageError(title, [f"other than in the file: {', '.join(changed)}"], "change the file instead")

    def record_files(self, study: Study, given: GivenFolders, files: Sequence[str]) -> None:
        """Record the folders that the study was given, and the rank files in them that it has used."""
        recorded = {
            "schema": _SCHEMA,
            "study": os.path.abspath(study.path),
            "ranks": {name: [str(folder) for folder in folders] for name, folders in given.ranks.items()},
            "pairs": [str(folder) for folder in given.pairs],
            "files": list(files),
        }
        self._write_if_new(SOURCES, recorded)

    def _write_if_new(self, name: str, content: Mapping[str, Any]) -> None:
        try:
            same = read_json(self.path / name, {}) == content
        except DataError:
            same = False
        if not same:
            write_json(self.path / name, content)

    def stored_verdicts(self, study: Study, source: str, key: str) -> list[Verdict] | None:
        """The verdicts from the ranks of a source, if they were computed from the same claims and ranks."""
        path = self.path / VERDICTS
        try:
            content = read_json(path, {"keys": dict, "verdicts": list}) if path.exists() else {"keys": {}}
        except DataError:  # they are computed again
            return None
        if content["keys"].get(source) != key:
            return None
        claims = {claim.name: claim for claim in study.claims}
        own = [entry for entry in content["verdicts"] if entry["source"] == source]
        return [_verdict(entry, claims) for entry in own]

    def store_verdicts(self, verdicts: Sequence[Verdict], keys: Mapping[str, str]) -> None:
        """Write the verdicts, with the keys of all that those of each source depend on."""
        content = {"schema": _SCHEMA, "keys": dict(keys), "verdicts": [_entry(verdict) for verdict in verdicts]}
        self._write_if_new(VERDICTS, content)


def _given(recorded: Mapping[str, Any]) -> GivenFolders:
    ranks = {name: tuple(map(Path, folders)) for name, folders in recorded.get("ranks", {}).items()}
    return GivenFolders(ranks, tuple(map(Path, recorded.get("pairs", []))))


def _at(study: Study, path: Path) -> Study:
    """A study that was read from a copy, with relative paths from the folder of its original."""
    given: list[str] = tomllib.loads(study.text)["graphs"]
    found = {one: path.parent / one for one in given}
    graphs = {Path(one).name: str(inside) if os.path.isdir(inside) else one for one, inside in found.items()}
    title = tomllib.loads(study.text).get("title", path.stem)
    return replace(study, path=path, graphs=graphs, title=title)


_NAMED = ("models", "claims", "openworld")


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """The parts in which two studies differ, one line each."""
    for part in dict.fromkeys((*old, *new)):
        before, after = old.get(part), new.get(part)
        if before == after:
            continue
        if part in _NAMED:
            entries = [_by_name(before), _by_name(after)]
            names = dict.fromkeys(name for own in entries for name in own)
            changed = [name for name in names if entries[0].get(name) != entries[1].get(name)]
            yield f"{part}: {', '.join(f'{name} {_change(*(own.get(name) for own in entries))}' for name in changed)}"
        else:
            yield f"{part}: {_change(before, after)}"


def _by_name(entries: Any) -> dict[str, Any]:
    """The tables of a part by name; claims are a list of tables with a name each."""
    if isinstance(entries, list):
        return {str(table.get("name", f"claim {number}")): table for number, table in enumerate(entries, 1)}
    return dict(entries) if isinstance(entries, Mapping) else {}


def _change(before: Any, after: Any) -> str:
    if before is None or after is None:
        return "is new" if before is None else "is gone"
    return "differs" if isinstance(after, Mapping) else f"was {shown(before)} and is {shown(after)}"


def verdict_key(study: Study, inputs: Mapping[str, Any]) -> str:
    """The hash of all that verdicts depend on.

    Args:
        study: The study with the claims.
        inputs: What is known of the ranks, in types of JSON.
    """
    claims = [repr(claim) for claim in study.claims]
    return content_hash({"code": _code_digest(), "claims": claims, "level": study.level, "inputs": inputs})


@cache
def _code_digest() -> str:
    """The hash of the code that verdicts depend on, since the version of a source tree stays the same."""
    package = Path(__file__).parent.parent
    files = [file for name in _JUDGES for file in sorted((package / name).rglob("*.py")) or [package / name]]
    return content_hash({str(file.relative_to(package)): file_digest(file) for file in files})


def _entry(verdict: Verdict) -> dict[str, Any]:
    """A verdict for JSON: its flat row, and the flags and numbers that the row has as text only."""
    row = verdict.to_row()
    plain = {name: None if row[name] is None else float(row[name]) for name in ("p", "p_runs")}
    flags = [{"model": flag.model, "reasons": list(flag.reasons), "error": flag.error} for flag in verdict.flags]
    observed = None if verdict.observed is None else bool(verdict.observed)
    return row | plain | {"observed": observed, "numbers": list(verdict.numbers), "flags": flags}


def _verdict(entry: Mapping[str, Any], claims: Mapping[str, Any]) -> Verdict:
    values: dict[str, Any] = {name: entry[name] for name in ("observed", "reason", "p", "p_runs", "needed")}
    for name in ("with_flagged", "without_flagged"):
        values[name] = None if entry[name] is None else Answer(entry[name])
    flags = tuple(Flag(flag["model"], tuple(flag["reasons"]), flag["error"]) for flag in entry["flags"])
    answer, numbers = Answer(entry["verdict"]), tuple(entry["numbers"])
    return Verdict(claims[entry["claim"]], entry["source"], answer, numbers=numbers, flags=flags, **values)
