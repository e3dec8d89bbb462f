"""The ranks of a study by source: rank files are found, read, audited and lined up, and what is missing is named."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kgprobe.audit import audited
from kgprobe.comparison.lineup import Lineup
from kgprobe.errors import DataError, KgprobeError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.openworld.bench_points import Points
from kgprobe.openworld.benches import collected_worlds
from kgprobe.openworld.world import OPEN_WORLD_METRICS
from kgprobe.ranks import RankFile, Ranks
from kgprobe.studies.fact_claims import open_world_metrics
from kgprobe.studies.study_file import ModelSpec, Study
from kgprobe.studies.study_folder import OWN, GivenFolders, StudyFolder, file_digest
from kgprobe.studies.verdicts import SourceRanks
from kgprobe.train.setting_sources import plain_name

Cell = tuple[str, str | None]
"""A graph, or a model on a graph."""

OPEN_WORLD = "open world"
"""Stands for the graph where ranks in an open and a closed world are missing."""

NOT_YET = "is not yet"
"""Part of the reason why ranks are missing that a later run of the study will make."""

_IMPORTED = (".json", ".jsonl", ".csv", ".tsv")


def why(error: KgprobeError) -> str:
    """What went wrong, in one line without the remedy.

    Example:
        >>> why(DataError("a.parquet: not a rank table", ["no column 'rank'", "no column 'side'"], "import it"))
        "a.parquet: not a rank table (no column 'rank'; no column 'side')"
    """
    more = f"; and {len(error.problems) - 5} more" if len(error.problems) > 5 else ""
    return error.title + (f" ({'; '.join(error.problems[:5])}{more})" if error.problems else "")


def load_graphs(study: Study) -> tuple[dict[str, KnowledgeGraph], dict[str, str]]:
    """The graphs of a study that can be loaded, and why others cannot."""
    found, unfound = {}, {}
    for name, source in study.graphs.items():
        try:
            found[name] = load_graph(source)
        except KgprobeError as error:
            unfound[name] = why(error)
    return found, unfound


@dataclass
class RankFiles:
    """The rank files of a source.

    Attributes:
        name: The name of the source.
        files: The files by graph and model.
        missing: Why graphs or models are missing.
        notes: What else there is in its folder.
    """

    name: str
    files: dict[str, dict[str, Path]] = field(default_factory=dict)
    missing: dict[Cell, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def digests(self) -> dict[str, str]:
        """The hash of every file."""
        return {
            f"{graph}/{model}": file_digest(path) for graph, own in self.files.items() for model, path in own.items()
        }


class _Matched(NamedTuple):
    """Names of a study, and the names of the files or folders that stand for them."""

    found: dict[str, str]
    several: dict[str, list[str]]
    others: list[str]


def _matched(names: Iterable[str], candidates: Sequence[str]) -> _Matched:
    """Match names without case and punctuation; a candidate with exactly the name of the study is preferred."""
    known = list(names)
    found = {name: name for name in known if name in candidates}
    several: dict[str, list[str]] = {}
    free = [name for name in candidates if name not in found]
    for name in (name for name in known if name not in found):
        alike = [other for other in free if plain_name(other) == plain_name(name)]
        if len(alike) == 1:
            found[name] = alike[0]
        elif alike:
            several[name] = alike
    used = {*found.values(), *(other for alike in several.values() for other in alike)}
    return _Matched(found, several, [name for name in candidates if name not in used])


def find_rank_files(name: str, folders: Sequence[Path], study: Study) -> RankFiles:
    """The rank files ``GRAPH/MODEL.parquet`` of the folders of a source, for the graphs and models of a study.

    Raises:
        DataError: There are none.
    """
    found = RankFiles(name)
    inside = _grouped(attrgetter("name"), (path for folder in folders for path in folder.iterdir() if path.is_dir()))
    graphs = _matched(study.graphs, sorted(inside))
    for graph in study.graphs:
        if graph in graphs.several:
            found.missing[graph, None] = f"several folders of {name} may be {graph}: {', '.join(graphs.several[graph])}"
        elif graph not in graphs.found:
            found.missing[graph, None] = f"{name} has no ranks of {graph}"
        else:
            _find_models(found, inside[graphs.found[graph]], graph, study.models)
    found.notes += [f"{name}/{other} is no graph of the study and is left out" for other in graphs.others]
    found.notes += _foreign(name, folders)
    if not found.files:
        problems = [*dict.fromkeys(found.missing.values()), *found.notes]
        remedy = "give a folder with rank files GRAPH/MODEL.parquet, named after the graphs and models of the study"
        raise DataError(f"{', '.join(map(str, folders))}: no rank files of this study", problems, remedy)
    return found


def _grouped(name: Callable[[Path], str], paths: Iterable[Path]) -> dict[str, list[Path]]:
    """Paths by name; hidden ones are left out."""
    found: dict[str, list[Path]] = {}
    for path in paths:
        if not path.name.startswith("."):
            found.setdefault(name(path), []).append(path)
    return found


def _foreign(name: str, folders: Sequence[Path]) -> list[str]:
    """A remark on files that may be ranks of other programs, if there are any."""
    found = [
        path.relative_to(folder)
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in _IMPORTED and path.is_file()
    ]
    more = f" and {len(found) - 3:,} more" if len(found) > 3 else ""
    return [
        f"{name} holds files that are not read: {', '.join(map(str, found[:3]))}{more}; ranks of other programs become "
        "rank files with 'kgprobe import'"
    ] * bool(found)


def _find_models(found: RankFiles, folders: Sequence[Path], graph: str, models: Mapping[str, ModelSpec]) -> None:
    files = (path for folder in folders for path in folder.glob("*.parquet") if path.is_file())
    inside = _grouped(attrgetter("stem"), files)
    matched = _matched(models, sorted(inside))
    place = f"{found.name}/{folders[0].name}"
    own: dict[str, Path] = {}
    for model, spec in models.items():
        paths = [path for stem in matched.several.get(model, []) for path in inside[stem]]
        paths += inside[matched.found[model]] if model in matched.found else []
        if len(paths) == 1:
            own[model] = paths[0]
        elif paths:
            names = [path.name for path in paths]
            shown = names if len(set(names)) == len(names) else map(str, paths)
            found.missing[graph, model] = f"several files of {place} may be {model}: {', '.join(shown)}"
        else:
            absent = f"{found.name} has no ranks of {model} on {graph}"
            found.missing[graph, model] = spec.unavailable.get(graph, absent)
    found.notes += [f"{place}/{other}.parquet is no model of the study and is left out" for other in matched.others]
    if own:
        found.files[graph] = own
    else:
        found.missing[graph, None] = f"{found.name} has no ranks of {graph}"


def own_rank_files(study: Study, folder: StudyFolder) -> RankFiles:
    """The ranks of the study's own models: given in the study file, or made by earlier runs of the study."""
    found = RankFiles(OWN)
    for graph in study.graphs:
        own: dict[str, Path] = {}
        for model, spec in study.models.items():
            path, reason = _own_file(study, folder, graph, spec)
            if path is not None:
                own[model] = path
            else:
                found.missing[graph, model] = reason
        if own:
            found.files[graph] = own
        else:
            reasons = dict.fromkeys(found.missing[graph, model] for model in study.models)
            waiting = all(NOT_YET in reason for reason in reasons)
            found.missing[graph, None] = f"no model is trained on {graph} yet" if waiting else "; ".join(reasons)
    return found


def _own_file(study: Study, folder: StudyFolder, graph: str, spec: ModelSpec) -> tuple[Path | None, str]:
    """The rank file of one of the study's own models, or why there is none."""
    if spec.ranks is not None:
        path = study.located(spec.ranks, graph)
        return (path, "") if path.is_file() else (None, f"{path}: no such rank file")
    if spec.train is None and spec.model is None:
        return None, f"the study does not say where ranks of {spec.name} come from"
    kept = folder.ranks_of(graph, spec.name)
    if files := kept.files:
        return files[0], ""
    done = "trained" if spec.train is not None else "ranked"
    return None, kept.reason or f"{spec.name} on {graph} {NOT_YET} {done}"


def read_source(files: RankFiles, graphs: Mapping[str, KnowledgeGraph]) -> SourceRanks:
    """Read, audit and line up the rank files of a source; what cannot be used is named instead."""
    missing, lineups = dict(files.missing), {}
    for graph, own in files.files.items():
        tables: dict[str, Ranks] = {}
        for model, path in own.items():
            try:
                tables[model] = _read(path, graphs.get(graph))
            except DataError as error:
                missing[graph, model] = why(error)
        try:
            lineups[graph] = _lined_up(graph, tables, graphs.get(graph), missing)
        except DataError as error:
            missing[graph, None] = why(error)
    return SourceRanks(files.name, lineups, missing)


def _read(path: Path, graph: KnowledgeGraph | None) -> Ranks:
    table = RankFile(path).read(graph)
    if table.has_intervals:
        raise DataError(f"{path}: its ranks are intervals, so there are no single values")
    if not len(table):
        raise DataError(f"{path}: it has no rows")
    return table


def _lined_up(
    graph: str, tables: Mapping[str, Ranks], knowledge: KnowledgeGraph | None, missing: dict[Cell, str]
) -> Lineup:
    """The line-up of all models, or of the majority that rank the same queries."""
    if not tables:
        raise DataError("; ".join(dict.fromkeys(text for (own, model), text in missing.items() if own == graph)))
    try:
        return audited(tables, graph=knowledge).lineup
    except DataError as error:
        groups: dict[str, list[str]] = {}
        for model, table in tables.items():
            groups.setdefault(_query_digest(table), []).append(model)
        *_, second, most = [[], *sorted(groups.values(), key=len)]
        if len(groups) == 1 or len(second) == len(most):
            raise
        text = f"it does not rank the queries of the other models: {'; '.join(error.problems) or error.title}"
        missing |= {(graph, model): f"{model} on {graph}: {text}" for model in tables if model not in most}
        return audited({model: tables[model] for model in most}, graph=knowledge).lineup


def _query_digest(table: Ranks) -> str:
    """A hash of the queries of a table, and of how often each of them occurs."""
    columns = np.stack([table.head, table.relation, table.tail, table.predicts_tail]).astype(np.int64)
    queries, count = np.unique(columns, axis=1, return_counts=True)
    runs = 1 if table.seed is None else len(np.unique(table.seed))
    return hashlib.sha256(queries.tobytes() + (count == runs).tobytes()).hexdigest()


def read_worlds(study: Study, folder: StudyFolder, given: GivenFolders) -> tuple[dict[float, Points], dict[Cell, str]]:
    """The values of models in an open and a closed world by missing rate, and what cannot be used.

    Where several worlds have the same missing rate, the first one counts.
    """
    named = [study.folder / pairs for pairs in study.openworld.pairs]
    problems = [f"{path}: no such folder" for path in named if not path.is_dir()]
    missing: dict[Cell, str] = {}
    folders = [*given.pairs, *filter(Path.is_dir, named)]
    for model in study.openworld.models:
        kept = folder.pairs_of(model)
        if kept.files:
            folders.append(kept.path.parent)
        else:
            missing[OPEN_WORLD, model] = kept.reason or f"{model} {NOT_YET} evaluated in the open world"
    metrics = dict.fromkeys((*open_world_metrics(study.claims), *OPEN_WORLD_METRICS))
    worlds: dict[float, Points] = {}
    try:
        found = collected_worlds(folders, metrics) if folders else []
    except DataError as error:
        found = []
        problems.append(why(error))
    for world, collector in found:
        density = world.get("density")
        rate = round(1 - density, 6) if isinstance(density, float) else None
        if rate is None or rate in worlds:
            reason = "its missing rate is not recorded" if rate is None else f"another world has missing rate {rate:g}"
            problems.append(f"{world['name']}: {reason}")
            continue
        try:
            worlds[rate] = collector.points()
        except DataError as error:
            problems.append(f"{world['name']}: {why(error)}")
    if problems:
        missing[OPEN_WORLD, None] = "; ".join(problems)
    return worlds, missing


def _points_digest(points: Points) -> str:
    texts = repr((points.metrics, points.models, points.checkpoints)).encode()
    numbers = (points.model, points.open, points.closed, points.mrr)
    return hashlib.sha256(texts + b"".join(array.tobytes() for array in numbers)).hexdigest()


@dataclass(frozen=True)
class StudyRanks:
    """All ranks of a study.

    Attributes:
        graphs: The graphs that were found.
        sources: The ranks by source; the study's own models are the last one.
        inputs: For each source, what its verdicts depend on, as JSON.
        missing: What is missing and why: by source, graph and model.
        notes: What else there is in the given folders.
        files: The rank files of the given folders that are used.
    """

    graphs: Mapping[str, KnowledgeGraph]
    sources: Mapping[str, SourceRanks]
    inputs: Mapping[str, Mapping[str, Any]]
    missing: Mapping[tuple[str, str, str | None], str]
    notes: Sequence[str]
    files: Sequence[str]


def read_study_ranks(study: Study, folder: StudyFolder, given: GivenFolders) -> StudyRanks:
    """Read the rank files of all sources; what cannot be used is named.

    Raises:
        DataError: A given folder has no rank file of the study.
    """
    graphs, unfound = load_graphs(study)
    found = [find_rank_files(name, folders, study) for name, folders in given.ranks.items()]
    used = [str(path) for one in found for own in one.files.values() for path in own.values()]
    found.append(own_rank_files(study, folder))
    sources = {one.name: read_source(one, graphs) for one in found}
    worlds, lost = read_worlds(study, folder, given)
    sources[OWN] = replace(sources[OWN], worlds=worlds, missing={**sources[OWN].missing, **lost})
    missing: dict[tuple[str, str, str | None], str] = {("", graph, None): text for graph, text in unfound.items()}
    for name, source in sources.items():
        missing |= {(name, graph, model): text for (graph, model), text in source.missing.items()}
    if len(sources) > 1 and not sources[OWN].lineups and not worlds:
        sources.pop(OWN)  # nothing is trained: it would be a column of claims that cannot be checked
    inputs = {one.name: _inputs(one, sources[one.name], graphs) for one in found if one.name in sources}
    return StudyRanks(graphs, sources, inputs, missing, [note for one in found for note in one.notes], used)


def _inputs(files: RankFiles, source: SourceRanks, graphs: Mapping[str, KnowledgeGraph]) -> dict[str, Any]:
    return {
        "files": files.digests,
        "graphs": {name: graphs[name].content_hash for name in source.lineups if name in graphs},
        "missing": [[graph, model, text] for (graph, model), text in source.missing.items()],
        "worlds": {str(rate): _points_digest(points) for rate, points in source.worlds.items()},
    }
