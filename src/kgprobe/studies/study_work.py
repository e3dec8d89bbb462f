"""Run a study: train, rank and evaluate what is missing, read all ranks, and give a verdict on every claim.

`kp.study` and `kgprobe study run` both call `run_study`. All work is kept in the folder of the study; the same call
continues after any interruption.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from kgprobe.errors import UsageError, nearest
from kgprobe.graph import KnowledgeGraph
from kgprobe.resources import Resources
from kgprobe.studies.study_file import Study, read_study
from kgprobe.studies.study_folder import OWN, GivenFolders, StudyFolder, verdict_key
from kgprobe.studies.study_sources import (
    NOT_YET,
    OPEN_WORLD,
    find_rank_files,
    load_graphs,
    read_study_ranks,
)
from kgprobe.studies.study_tasks import StudyPlan, Task, plan_tasks
from kgprobe.studies.study_workers import (
    JUDGING_SECONDS,
    Note,
    OnStudyProgress,
    StudyTrack,
    StudyWorkers,
    is_waiting,
    left_out_trainings,
)
from kgprobe.studies.verdicts import Answer, SourceRanks, Verdict, judge
from kgprobe.tables import Table

Folders: TypeAlias = Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, eq=False)
class StudyResult(Table):
    """The ranks of a study and the verdicts on its claims.

    Attributes:
        study: The study.
        folder: Its folder.
        sources: The ranks by source.
        graphs: The graphs that were found.
        verdicts: The verdicts, by source and in the order of the claims.
        missing: What was left out and why: by source, graph and model; without a source, the graph was not found.
    """

    study: Study
    folder: Path
    sources: Mapping[str, SourceRanks]
    graphs: Mapping[str, KnowledgeGraph] = field(repr=False)
    verdicts: tuple[Verdict, ...]
    missing: Mapping[tuple[str, str, str | None], str]

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each source and claim."""
        return [verdict.to_row() for verdict in self.verdicts]

    def by_claim(self) -> list[dict[str, Any]]:
        """One row for each claim, with the verdicts of all sources side by side."""
        answers = {(verdict.source, verdict.claim.name): verdict for verdict in self.verdicts}
        return [
            {"section": claim.section, "claim": claim.name, "statement": claim.statement}
            | {source: _cell(answers[source, claim.name]) for source in self.sources}
            for claim in self.study.claims
        ]

    def left_out(self) -> list[str]:
        """What is missing, in as few sentences as possible."""
        waiting, lines = list[str](), list[str]()
        for (source, graph, model), reason in self.missing.items():
            of_graph = self.missing.get((source, graph, None))
            if source == OWN and ("", graph, None) in self.missing:
                continue  # the graph itself was not found
            if source == OWN and model is not None and NOT_YET in reason:
                waiting.append(f"{model} on {graph}")
            elif model is not None and of_graph is not None and (source != OWN or of_graph == reason):
                continue  # named for the whole graph
            elif source == OWN and model is None and self._differ(graph, reason):
                continue  # named for each model
            else:
                about = source or f"graph {graph}"
                named = reason if model is None or model in reason else f"{model} on {graph}: {reason}"
                lines.append(named if named.startswith(about) else f"{about}: {named}")
        if waiting:
            more = f" and {len(waiting) - 3:,} more" if len(waiting) > 3 else ""
            lines.append(f"{OWN}: not yet trained or ranked: {', '.join(waiting[:3])}{more}")
        return list(dict.fromkeys(lines))

    def _differ(self, graph: str, reason: str) -> bool:
        """Whether the study's own models are missing on a graph for other reasons than the given one."""
        own = [self.missing.get((OWN, graph, model)) for model in self.study.models]
        return any(one is not None and one != reason for one in own)

    def __repr__(self) -> str:
        sources = ", ".join(f"{name} on {len(one.lineups)} graphs" for name, one in self.sources.items())
        return f"StudyResult({self.study.title!r}, {len(self.study.claims)} claims, ranks: {sources})"

    def _shown_rows(self) -> list[dict[str, Any]]:
        return self.by_claim()

    def _notes(self) -> list[str]:
        return self.left_out()


def _cell(verdict: Verdict) -> str:
    if verdict.answer is not Answer.untrusted:
        return str(verdict.answer)
    return f"{verdict.answer} (with all models: {verdict.with_flagged}; without: {verdict.without_flagged})"


class StudyStopped(KeyboardInterrupt):
    """A study that Ctrl-C has stopped."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"{folder}: stopped; finished work and the epochs of trainings are kept, and the same command continues"
        )


@dataclass(frozen=True)
class _Prepared:
    """A study that can be run."""

    study: Study
    folder: StudyFolder
    given: GivenFolders
    plan: StudyPlan
    chosen: list[Task]


def _prepared(
    study: str | os.PathLike[str] | Study,
    output: str | os.PathLike[str],
    ranks: Folders,
    pairs: Folders,
    graphs: Sequence[str] | None,
    models: Sequence[str] | None,
    update: bool,
) -> _Prepared:
    """Read the study, check all arguments, and list the work; nothing is written."""
    read = study if isinstance(study, Study) else read_study(os.path.abspath(study))
    folder = StudyFolder(output)
    read, given = folder.prepared(read, GivenFolders.of(ranks, pairs), update=update)
    _require_known(read, graphs, models)
    for name, folders in given.ranks.items():
        find_rank_files(name, folders, read)
    plan = plan_tasks(read, folder, *load_graphs(read))
    chosen = [
        task
        for task in plan.tasks
        if (graphs is None or task.graph in graphs) and (models is None or task.model in models)
    ]
    return _Prepared(read, folder, given, plan, chosen)


def _require_known(study: Study, graphs: Sequence[str] | None, models: Sequence[str] | None) -> None:
    world = [] if study.openworld.world is None else [Path(study.openworld.world).name]
    known = {"graph": [*study.graphs, *world], "model": [*study.models, *study.openworld.models]}
    problems = [
        f"unknown {what} '{name}'{nearest(name, known[what])}"
        for what, given in (("graph", graphs), ("model", models))
        for name in given or []
        if name not in known[what]
    ]
    if problems:
        raise UsageError("invalid `graphs` or `models`", problems, "name graphs and models as the study does")


@dataclass(frozen=True, eq=False)
class StudyWork(Table):
    """The work of a study, as `plan_study` lists it.

    Attributes:
        tasks: The work.
        impossible: Why other work cannot be done, by graph and model.
        notes: Remarks.
    """

    tasks: tuple[Task, ...]
    impossible: Mapping[tuple[str, str | None], str]
    notes: tuple[str, ...]

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each task; finished work takes no time, and time that is not known is None."""
        return [task.to_row() for task in self.tasks]

    @property
    def seconds(self) -> tuple[float, int]:
        """The time that is left, as far as it is known, and the number of tasks whose time is not known."""
        left = [row["seconds"] for row in self.to_rows()]
        return sum(filter(None, left)), left.count(None)

    def __repr__(self) -> str:
        states = [task.state for task in self.tasks]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        return f"StudyWork({len(states)} tasks{': ' if counts else ''}{counts})"


def plan_study(
    study: str | os.PathLike[str] | Study,
    output: str | os.PathLike[str],
    *,
    ranks: Folders = (),
    pairs: Folders = (),
    train: bool | None = None,
    graphs: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    update: bool = False,
) -> StudyWork:
    """List the work that `run_study` would do, with its estimated time; nothing is written."""
    prepared = _prepared(study, output, ranks, pairs, graphs, models, update)
    impossible = {
        (graph, model): reason
        for (graph, model), reason in prepared.plan.impossible.items()
        if (graphs is None or graph in graphs) and (models is None or model in models)
    }
    unwanted = [] if _trains(train, ranks) else [task for task in prepared.chosen if is_waiting(task)]
    notes = [*prepared.plan.notes, *([left_out_trainings(len(unwanted))] if unwanted else [])]
    return StudyWork(tuple(task for task in prepared.chosen if task not in unwanted), impossible, tuple(notes))


def _trains(train: bool | None, ranks: Folders) -> bool:
    """Whether models are trained: as asked for, or where no ranks are given."""
    return not ranks if train is None else train


def run_study(
    study: str | os.PathLike[str] | Study,
    output: str | os.PathLike[str],
    *,
    ranks: Folders = (),
    pairs: Folders = (),
    train: bool | None = None,
    device: str = "auto",
    threads: int | None = None,
    jobs: int | None = None,
    graphs: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    update: bool = False,
    progress: OnStudyProgress | None = None,
    note: Note | None = None,
) -> StudyResult:
    """Run a study: train and rank what is missing, and test its claims on the ranks of every source.

    Finished work is never repeated. What cannot be done is named in the result, and does not stop the rest.

    Args:
        study: A study file.
        output: The folder of the study: a new one, or that of earlier runs.
        ranks: Folders of rank files ``GRAPH/MODEL.parquet``, a folder, or "NAME=FOLDER". Each is a source of
            its own; folders with the same NAME are one source.
        pairs: Folders that `kgprobe openworld evaluate` wrote.
        train: Whether to train models; None for where no ``ranks`` are given, because trainings can take hours.
        device: "cpu", a torch device such as "cuda", or "auto" for GPUs where there are any.
        threads: Threads of each training; None for 1 on a CPU, and all cores in equal parts on a GPU.
        jobs: The number of trainings at a time; None to choose.
        graphs: Do only the work for these graphs; None for all.
        models: Do only the work for these models; None for all.
        update: Continue in the folder of another study, and forget the folders that were given to it.
        progress: Called with the progress of all work.
        note: Called with remarks, one line each.

    Raises:
        UsageError: An argument is invalid, or the folder holds another study.
        DataError: The study or a given folder cannot be used.
        StudyStopped: Ctrl-C was pressed.
    """
    say = note or (lambda text: None)
    resources = Resources(threads=threads)
    if jobs is not None and jobs < 1:
        raise UsageError(f"`jobs` is {jobs}, and must be at least 1")
    prepared = _prepared(study, output, ranks, pairs, graphs, models, update)
    lock = prepared.folder.lock()
    try:
        prepared.folder.begin(prepared.study, prepared.given)
        for text in prepared.plan.notes:
            say(text)
        _record_impossible(prepared.folder, prepared.plan)
        for task in prepared.plan.tasks:
            task.kept.discard_others(task.key)
        track = StudyTrack(
            progress, [task for task in prepared.chosen if not task.is_finished], len(prepared.given.ranks) + 1
        )
        StudyWorkers(prepared.folder, track, say, device, resources, jobs).do(
            train=not ranks if train is None else train
        )
        return _judged(prepared.study, prepared.folder, prepared.given, track, say, store=True)
    except KeyboardInterrupt:
        raise StudyStopped(prepared.folder.path) from None
    finally:
        lock.release()


def open_study(folder: str | os.PathLike[str]) -> StudyResult:
    """Read a finished or partly finished study again, without doing any work.

    Raises:
        DataError: There is no study, or rank files that it has used are no longer there.
    """
    opened = StudyFolder(folder)
    study, given = opened.read()
    return _judged(study, opened, given, StudyTrack(None, [], 0), lambda text: None, store=False)


def _record_impossible(folder: StudyFolder, plan: StudyPlan) -> None:
    for (graph, model), reason in plan.impossible.items():
        assert model is not None
        kept = folder.pairs_of(model) if graph == OPEN_WORLD else folder.ranks_of(graph, model)
        if not kept.files:  # ranks that were made where the graph is at hand can still be used
            kept.fail("", reason)


def _judged(
    study: Study, folder: StudyFolder, given: GivenFolders, track: StudyTrack, note: Note, *, store: bool
) -> StudyResult:
    """Read all ranks, and test the claims that have not been tested on the same ranks before."""
    found = read_study_ranks(study, folder, given)
    for text in found.notes:
        note(text)
    if store:
        folder.record_files(study, given, found.files)
    verdicts: list[Verdict] = []
    keys = {name: verdict_key(study, inputs) for name, inputs in found.inputs.items()}
    for name, source in found.sources.items():
        track.running({f"claims on {name}": 0.0})
        known = folder.stored_verdicts(study, name, keys[name])
        verdicts += judge(study.claims, source, level=study.level) if known is None else known
        track.finish(JUDGING_SECONDS)
    if store:
        folder.store_verdicts(verdicts, keys)
    return StudyResult(study, folder.path, found.sources, found.graphs, tuple(verdicts), found.missing)
