"""The work of a study is done: rankings in this process, trainings in others, with the progress of the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeGuard

from kgprobe.errors import KgprobeError
from kgprobe.report.grid import counted
from kgprobe.resources import Resources
from kgprobe.studies.study_folder import StudyFolder
from kgprobe.studies.study_processes import run_jobs
from kgprobe.studies.study_sources import why
from kgprobe.studies.study_tasks import Ranking, Task, Training, WorldTraining, write_split_world
from kgprobe.studies.verdicts import OUT_OF_MEMORY

Note: TypeAlias = Callable[[str], None]

JUDGING_SECONDS = 10.0
_TRAINING_SECONDS, _RANKING_SECONDS = 60.0, 5.0
"""The time of work that was not measured, for the progress alone."""

_MOST_JOBS, _MOST_GPU_JOBS, _CORES_A_GPU_JOB = 8, 4, 4


@dataclass(frozen=True)
class StudyProgress:
    """How far a study is.

    Attributes:
        done: The work that is done, in estimated seconds.
        total: All work of this call.
        running: What is being done.
    """

    done: float
    total: float
    running: tuple[str, ...]


OnStudyProgress: TypeAlias = Callable[[StudyProgress], None]


class StudyTrack:
    """Progress over the whole study.

    Args:
        report: Called with the progress.
        tasks: The work that is to be done.
        sources: The number of sources on which claims are tested.
    """

    def __init__(self, report: OnStudyProgress | None, tasks: Sequence[Task], sources: int) -> None:
        self._report = report or (lambda progress: None)
        self.tasks = list(tasks)
        self._done = 0.0
        self._total = sum(map(_weight, tasks)) + JUDGING_SECONDS * sources

    def running(self, shares: Mapping[str, float]) -> None:
        """Report work that is being done, with the share of each that is done."""
        weights = {task.name: _weight(task) for task in self.tasks}
        partly = sum(share * weights.get(name, 0.0) for name, share in shares.items())
        self._report(StudyProgress(self._done + partly, self._total, tuple(shares)))

    def finish(self, seconds: float) -> None:
        self._done += seconds
        self.running({})


def _weight(task: Task) -> float:
    if task.seconds is not None:
        return task.seconds
    return _RANKING_SECONDS if isinstance(task, Ranking) else _TRAINING_SECONDS


def is_waiting(task: Task) -> TypeGuard[Training]:
    """Whether a task is a training that is not finished."""
    return isinstance(task, Training) and not task.is_finished and not task.is_trained


def left_out_trainings(number: int) -> str:
    """A remark on trainings that are not done."""
    return f"{counted(number, 'training')} left out; they need --train, or train=True"


class StudyWorkers:
    """Those who do the work: this process ranks and evaluates, others train.

    Args:
        folder: The folder of the study.
        track: The work, and its progress.
        note: Called with remarks.
        device: "cpu", a torch device, or "auto".
        resources: The threads of each training.
        jobs: The number of trainings at a time; None to choose.
    """

    def __init__(
        self, folder: StudyFolder, track: StudyTrack, note: Note, device: str, resources: Resources, jobs: int | None
    ) -> None:
        self.folder, self.track, self.note = folder, track, note
        self.device, self.resources, self.jobs = device, resources, jobs

    def do(self, *, train: bool) -> None:
        """Do all work; what fails is recorded and does not stop the rest.

        Args:
            train: Whether to train models, or only to keep the ranks of finished runs.
        """
        waiting = [task for task in self.track.tasks if is_waiting(task)]
        # First, since a device that cannot be used is refused.
        capacity = _capacity(self.device, self.resources, self.jobs) if train and waiting else None
        for task in self.track.tasks:
            if isinstance(task, Ranking):
                self.track.running({task.name: 0.0})
                self._attempt(task, partial(task.do, self.resources))
            elif isinstance(task, Training) and task not in waiting:  # stopped before its ranks were kept
                self._keep(task, "cpu")
        if capacity is not None:
            self._train(waiting, *capacity)
        elif waiting:
            self.note(left_out_trainings(len(waiting)))

    def _attempt(self, task: Task, work: Callable[[], None]) -> None:
        """Do work, or record why it cannot be done."""
        try:
            work()
        except KgprobeError as error:
            self._fail(task, why(error))
        self.track.finish(_weight(task))

    def _fail(self, task: Task, reason: str) -> None:
        task.kept.fail(task.key, reason)
        self.note(reason if task.name in reason else f"{task.name}: {reason}")

    def _keep(self, task: Training, device: str) -> None:
        from kgprobe.train.trainer import TrainingResources

        entities = task.world.num_entities if isinstance(task, WorldTraining) else 0
        resources = TrainingResources(device, self.resources.threads).ranking(entities)
        self.track.running({task.name: 1.0})
        self._attempt(task, partial(task.keep, resources))

    def _train(self, tasks: Sequence[Training], devices: Sequence[str], threads: int, jobs: int) -> None:
        for task in tasks:
            if isinstance(task, WorldTraining):
                write_split_world(task, self.folder)
        self.note(f"{len(tasks)} trainings on {', '.join(devices)}, {min(jobs, len(tasks))} at a time")
        short = list(self._attempts(tasks, devices, threads, jobs, retried=jobs > 1))
        if short:
            self.note(f"{len(short)} trainings were short of memory, and are tried again one at a time")
            list(self._attempts(short, devices, threads, 1, retried=False))

    def _attempts(
        self, tasks: Sequence[Training], devices: Sequence[str], threads: int, jobs: int, *, retried: bool
    ) -> Iterator[Training]:
        """Train, and give the tasks that are to be tried again because they were short of memory."""
        by_job = {}
        for number, task in enumerate(tasks):
            device = devices[number % len(devices)]
            by_job[task.job(device, threads)] = task, device
        with closing(run_jobs(list(by_job), jobs, self.track.running, self.note)) as ended:
            for job, failure in ended:
                task, device = by_job[job]
                if failure is None:
                    self._keep(task, device)
                    self.note(f"{task.name}: trained")
                elif retried and failure.startswith(OUT_OF_MEMORY):
                    yield task
                else:
                    self._fail(task, failure)
                    self.track.finish(_weight(task))


def _capacity(device: str, resources: Resources, jobs: int | None) -> tuple[list[str], int, int]:
    """The devices in turn, the threads of each training, and how many are trained at a time."""
    import torch

    from kgprobe.predict.backends.backend import backend_for
    from kgprobe.train.trainer import TrainingResources

    chosen = TrainingResources(device).resolved().device
    backend_for(chosen)  # refuses a device that cannot be used
    cores = Resources().workers
    if not chosen.startswith("cuda"):
        threads = resources.threads or 1
        return [chosen], threads, jobs or max(1, min(cores // threads, _MOST_JOBS))
    several = torch.cuda.device_count() if device == "auto" else 1
    devices = [f"cuda:{number}" for number in range(several)] if several > 1 else [chosen]
    at_once = jobs or max(1, min(_MOST_GPU_JOBS, cores // _CORES_A_GPU_JOB)) * several
    return devices, resources.threads or max(1, cores // at_once), at_once
