"""The work of a study: which models are still to be trained, ranked or evaluated, and how long that may take."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgprobe.errors import DataError, UsageError
from kgprobe.files import replacing
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.graph.load import places
from kgprobe.json_files import content_hash
from kgprobe.models.registry import model_kind
from kgprobe.openworld.splits import split_world
from kgprobe.openworld.world import OpenWorld
from kgprobe.openworld.world_files import ABOUT, ANSWERS, read_world, write_world
from kgprobe.openworld.world_tasks import WorldTask, all_task, tail_task
from kgprobe.predict import rank
from kgprobe.predict.baselines import BASELINES
from kgprobe.ranks import RankFile
from kgprobe.resources import Resources
from kgprobe.studies.study_file import ModelSpec, Study
from kgprobe.studies.study_folder import Kept, StudyFolder, file_digest, file_name
from kgprobe.studies.study_processes import Job
from kgprobe.studies.study_sources import OPEN_WORLD, Cell, why
from kgprobe.train.setting_sources import Known, from_values, known_settings

if TYPE_CHECKING:
    from kgprobe.train.settings import Settings

_KEY = 12  # digits of a key in the name of a run
_SNAPSHOTS = 10  # of an open-world training whose settings do not say


@dataclass(frozen=True)
class Task:
    """Work for one model on one graph.

    Attributes:
        work: What is done: "train", "rank" or "train and evaluate".
        graph: The name of the graph.
        model: The name of the model.
        key: The hash of all that the result depends on.
        kept: Where the result is.
        seconds: How long it took where its settings were measured; None where that is not known.
        machine: Where that was measured.
    """

    work: str
    graph: str
    model: str
    key: str
    kept: Kept
    seconds: float | None = None
    machine: str | None = None

    @property
    def name(self) -> str:
        return f"{self.model} on {self.graph}"

    @property
    def is_finished(self) -> bool:
        return self.kept.is_finished(self.key)

    @property
    def state(self) -> str:
        """How far it is: "finished", "begun" or "to do"."""
        return "finished" if self.is_finished else "to do"

    def to_row(self) -> dict[str, Any]:
        """A flat row; finished work takes no time."""
        state = self.state
        done = state == "finished"
        return {
            "work": self.work,
            "graph": self.graph,
            "model": self.model,
            "state": state,
            "seconds": 0.0 if done else self.seconds,
            "measured": None if done else self.machine,
        }


@dataclass(frozen=True)
class Ranking(Task):
    """A model of another program that is ranked.

    Attributes:
        source: The model, as `kgprobe rank` takes it.
        knowledge: The graph.
    """

    source: str = field(kw_only=True)
    knowledge: KnowledgeGraph = field(kw_only=True, repr=False)

    def do(self, resources: Resources) -> None:
        """Rank the model and keep its ranks."""
        ranks = rank(self.source, self.knowledge, name=self.model, resources=resources)
        path = self.kept.path.with_suffix(".parquet")
        ranks.write(path)
        self.kept.finish(self.key, [path])


@dataclass(frozen=True)
class Training(Task):
    """A training in a process of its own.

    Attributes:
        spec: The model in the study.
        source: The directory or name of the graph.
        settings: All settings.
        run: The run directory.
    """

    spec: ModelSpec = field(kw_only=True)
    source: str = field(kw_only=True)
    settings: Settings = field(kw_only=True, repr=False)
    run: Path = field(kw_only=True)

    @property
    def state(self) -> str:
        from kgprobe.train.run_directory import is_run

        return "begun" if not self.is_finished and is_run(self.run) else super().state

    @property
    def is_trained(self) -> bool:
        """Whether the run is finished, and its ranks are whole."""
        from kgprobe.train.run_files import RESULT

        return (self.run / RESULT).is_file() and self._are_ranks_whole()

    def _are_ranks_whole(self) -> bool:
        try:
            return len(RankFile(self._ranks)) > 0
        except DataError:
            return False

    @property
    def _ranks(self) -> Path:
        from kgprobe.train.run_files import ranks_path

        return ranks_path(self.run, self.settings.select[0], first=True)

    def job(self, device: str, threads: int | None) -> Job:
        """The command that trains it, or continues its training."""
        from kgprobe.train.run_directory import is_run

        arguments = ["train", str(self.spec.train), f"--graph={self.source}", f"--output={self.run}"]
        arguments += [f"--device={device}", *([] if threads is None else [f"--threads={threads}"])]
        if is_run(self.run):
            arguments.append("--resume")
        else:
            given = self.spec.settings_for(self.graph)
            arguments += _options(self.settings, (*given, "seeds", "snapshot_every"))
        return Job(self.name, tuple(arguments), self.run.with_name(f"{self.run.name}.log"))

    def keep(self, resources: Resources) -> None:
        """Keep the ranks of the finished run, those of its first selection metric."""
        path = self.kept.path.with_suffix(".parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            shutil.copyfile(self._ranks, temporary)
        self.kept.finish(self.key, [path])


def _options(settings: Settings, names: Sequence[str]) -> list[str]:
    """Settings as options of ``kgprobe train``.

    Example:
        >>> from kgprobe.train.settings import resolve
        >>> given = from_values("study", {"seeds": [1, 2], "reciprocal": True, "select": ["MRR", "MR"]})
        >>> _options(resolve("complex", [given]).settings, ["seeds", "reciprocal", "select"])
        ['--set=seeds=1,2', '--set=reciprocal=true', '--set=select=MRR', '--set=select=MR']
    """
    known = settings.flat()
    words = []
    for name in (name for name in dict.fromkeys(names) if name in known):
        value = known[name]
        several = value if isinstance(value, tuple) else (value,)
        texts = [str(one).lower() if isinstance(one, bool) else str(one) for one in several]
        words += [f"--set={name}={text}" for text in (texts if isinstance(several[0], str) else [",".join(texts)])]
    return words


@dataclass(frozen=True)
class WorldTraining(Training):
    """A training on an open world, whose snapshots are ranked in the open and the closed world.

    Attributes:
        world: The world.
        ranked: The triples to rank.
    """

    world: OpenWorld = field(kw_only=True, repr=False)
    ranked: WorldTask = field(kw_only=True, repr=False)

    @property
    def name(self) -> str:
        return f"{super().name} (open world)"

    def _are_ranks_whole(self) -> bool:
        return True  # its test ranks are not used

    def keep(self, resources: Resources) -> None:
        """Rank all snapshots in both worlds; those that an earlier session has ranked are kept."""
        from kgprobe.openworld.world_ranks import checkpoints_of, pair_paths

        folder = self.kept.path.parent
        written: list[Path] = []
        for found in checkpoints_of([self.run], folder):
            checkpoint = replace(found, model=self.model, folder=folder)
            try:
                ranked = checkpoint.is_ranked(self.world, self.ranked)
            except DataError:  # of other settings
                ranked = False
            if not ranked:
                checkpoint.rank(self.world, self.ranked, resources)
            written += pair_paths(folder, checkpoint.name).values()
        for path in folder.glob("*.parquet"):
            if path not in written:
                path.unlink()
        self.kept.finish(self.key, written)


@dataclass
class StudyPlan:
    """The work of a study.

    Attributes:
        tasks: What is to be done or is finished.
        impossible: Why work cannot be done, by graph and model.
        notes: Remarks on the settings.
    """

    tasks: list[Task] = field(default_factory=list)
    impossible: dict[Cell, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def plan_tasks(
    study: Study, folder: StudyFolder, graphs: Mapping[str, KnowledgeGraph], unfound: Mapping[str, str]
) -> StudyPlan:
    """List the work of a study.

    Args:
        study: The study.
        folder: Its folder.
        graphs: The graphs that were found.
        unfound: Why others were not.

    Raises:
        UsageError: Settings of trainings are invalid; with all problems.
    """
    plan, problems = StudyPlan(), list[str]()
    for graph in study.graphs:
        for spec in study.models.values():
            if spec.train is None and spec.model is None:
                continue
            try:
                if graph in unfound:
                    raise DataError(unfound[graph])
                made = _training if spec.train is not None else _ranking
                plan.tasks.append(made(study, folder, graph, graphs[graph], spec, plan))
            except UsageError as error:
                problems += [f"[models.{spec.name}]: {problem}" for problem in error.problems or [error.title]]
            except DataError as error:
                plan.impossible[graph, spec.name] = why(error)
    if study.openworld.models:
        try:
            _plan_world(study, folder, plan, problems)
        except DataError as error:
            plan.impossible |= {(OPEN_WORLD, model): why(error) for model in study.openworld.models}
    if problems:
        remedy = "'kgprobe train MODEL --graph GRAPH --dry-run' lists the settings of a model"
        raise UsageError(f"{study.path}: invalid trainings", dict.fromkeys(problems), remedy)
    plan.notes = list(dict.fromkeys(plan.notes))
    return plan


def _ranking(
    study: Study, folder: StudyFolder, graph: str, knowledge: KnowledgeGraph, spec: ModelSpec, plan: StudyPlan
) -> Task:
    assert spec.model is not None
    path = study.located(spec.model, graph)
    if path.exists():
        source, content = str(path), file_digest(path)
    elif spec.model in BASELINES:
        source = content = spec.model
    else:
        raise DataError(f"{path}: no such model")
    key = content_hash({"graph": knowledge.content_hash, "model": content, "source": os.path.basename(source)})
    return Ranking("rank", graph, spec.name, key, folder.ranks_of(graph, spec.name), source=source, knowledge=knowledge)


def _resolved(
    study: Study, spec: ModelSpec, graph: str, knowledge: KnowledgeGraph, more: Mapping[str, Any]
) -> tuple[Settings, Known, dict[str, Any]]:
    """The settings of a training, and what is known of its packaged ones."""
    if absent := [name for name in ("torch", "safetensors") if find_spec(name) is None]:
        raise DataError(f"training needs {' and '.join(absent)}: pip install 'kgprobe[models]'")
    from kgprobe.train.settings import resolve

    model = model_kind(str(spec.train)).name
    known = known_settings(model, knowledge)
    given = {"seeds": list(study.seeds), **more, **spec.settings_for(graph)}
    return resolve(model, [*known.sources, from_values("the study", given)]).settings, known, given


def _training(
    study: Study, folder: StudyFolder, graph: str, knowledge: KnowledgeGraph, spec: ModelSpec, plan: StudyPlan
) -> Task:
    for split, what in (("train", "training"), ("test", "test")):
        if not len(knowledge.triples(split)):
            raise DataError(f"{graph} has no {what} triples")
    settings, known, given = _resolved(study, spec, graph, knowledge, {})
    plan.notes += [note for note in known.notes if not note.startswith("settings: ")]
    key = _run_key(knowledge, settings)
    seconds = None if set(given) - {"seeds"} else _measured_seconds(known, settings)
    return Training(
        "train",
        graph,
        spec.name,
        key,
        folder.ranks_of(graph, spec.name),
        seconds,
        str(known.measured["machine"]) if seconds is not None and "machine" in known.measured else None,
        spec=spec,
        source=study.graphs[graph],
        settings=settings,
        run=folder.runs / file_name(graph) / f"{file_name(spec.name)}-{key[:_KEY]}",
    )


def _run_key(knowledge: KnowledgeGraph, settings: Settings) -> str:
    from kgprobe.train.checkpoints import as_json

    return content_hash({"graph": knowledge.content_hash, "settings": as_json(settings.flat())})


def _measured_seconds(known: Known, settings: Settings) -> float | None:
    """The seconds that the packaged settings took, for as many seeds; None where they were not measured."""
    seconds, seeds = known.measured.get("seconds"), known.measured.get("seeds")
    if not isinstance(seconds, int | float):
        return None
    return float(seconds) * len(settings.seeds) / (len(seeds) if isinstance(seeds, list) and seeds else 1)


def world_source(study: Study) -> str:
    """The directory or name of the graph or world that open-world models are trained on."""
    given = str(study.openworld.world)
    inside = study.folder / given
    return str(inside) if os.path.isdir(inside) else given


def _plan_world(study: Study, folder: StudyFolder, plan: StudyPlan, problems: list[str]) -> None:
    world, place = _world(study, folder)
    name = Path(str(study.openworld.world)).name
    try:
        ranked = tail_task(world)
    except DataError:  # no query has many answers
        ranked = all_task(world)
    missing = hashlib.sha256(world.missing.tobytes()).hexdigest()
    for spec in study.openworld.models.values():
        try:
            epochs = _resolved(study, spec, name, world.graph, {})[0].epochs
            settings, _, _ = _resolved(study, spec, name, world.graph, {"snapshot_every": max(1, epochs // _SNAPSHOTS)})
        except UsageError as error:
            problems += [f"[openworld.models.{spec.name}]: {problem}" for problem in error.problems or [error.title]]
            continue
        run = _run_key(world.graph, settings)
        key = content_hash({"run": run, "missing": missing, "task": dict(ranked.settings)})
        plan.tasks.append(
            WorldTraining(
                "train and evaluate",
                name,
                spec.name,
                key,
                folder.pairs_of(spec.name),
                spec=spec,
                source=place,
                settings=settings,
                run=folder.openworld / "runs" / f"{file_name(spec.name)}-{run[:_KEY]}",
                world=world,
                ranked=ranked,
            )
        )


def _world(study: Study, folder: StudyFolder) -> tuple[OpenWorld, str]:
    """The open world of the study, and the directory of its graph, which may not be written yet."""
    source = world_source(study)
    found = next((place for place in places(source) if place.is_dir()), None)
    if found is not None and any((found / name).exists() for name in (ABOUT, ANSWERS)):
        return read_world(found), str(found)
    return split_world(load_graph(source), study.openworld.density), str(_split_world(folder))


def _split_world(folder: StudyFolder) -> Path:
    return folder.openworld / "world"


def write_split_world(task: WorldTraining, folder: StudyFolder) -> None:
    """Write the world of a task, if the study has split it and it is not there already."""
    place = _split_world(folder)
    if task.source != str(place):
        return
    try:
        found = read_world(place)
        same = found.graph.content_hash == task.world.graph.content_hash and found.settings == task.world.settings
    except DataError:
        same = False
    if not same:
        write_world(task.world, place)
