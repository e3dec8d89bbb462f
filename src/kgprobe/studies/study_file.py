"""Study files: graphs, models, points and claims of an evaluation, declared in TOML and validated as a whole."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kgprobe.aggregate.surfaces import PAPER_ALPHAS, PAPER_BETAS
from kgprobe.errors import DataError, KgprobeError, UsageError, nearest, shown
from kgprobe.files import replacing
from kgprobe.metrics import Metric, parse_all
from kgprobe.models.registry import MODELS
from kgprobe.studies.claim_forms import ClaimForm, Scope, flat, is_list
from kgprobe.studies.claim_kinds import Claim
from kgprobe.train.setting_sources import read_toml

PACKAGED = {"probe-paper": "the tables, figures and claims of the PROBE paper"}
"""Studies that come with the package, with what they are."""


@dataclass(frozen=True)
class ModelSpec:
    """Where the ranks of a model come from, beside folders of rank files.

    Attributes:
        name: Its name in tables.
        train: The trainable model, such as "rotate".
        settings: Settings of its training that differ from the packaged ones or the defaults.
        settings_on: Further settings for some graphs, by graph.
        model: A model file or folder, as `kgprobe rank` takes it; ``{graph}`` stands for the name of the graph.
        ranks: A rank file; ``{graph}`` stands for the name of the graph.
        unavailable: Why it is known to have no ranks on some graphs, by graph, such as "out of memory".
    """

    name: str
    train: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    settings_on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    model: str | None = None
    ranks: str | None = None
    unavailable: Mapping[str, str] = field(default_factory=dict)

    def settings_for(self, graph: str) -> dict[str, Any]:
        """The settings of its training on a graph; those for this graph replace those for all."""
        return {**self.settings, **self.settings_on.get(graph, {})}


@dataclass(frozen=True)
class OpenWorldSpec:
    """Where the ranks in an open and a closed world come from.

    Attributes:
        pairs: Folders that `kgprobe openworld evaluate` wrote.
        world: The graph that is treated as complete, or an open-world folder.
        density: The share of its triples that are kept.
        models: The trainings, with snapshots.
    """

    pairs: tuple[str, ...] = ()
    world: str | None = None
    density: float = 0.75
    models: Mapping[str, ModelSpec] = field(default_factory=dict)


@dataclass(frozen=True)
class Study:
    """A study: which models are evaluated on which graphs, at which points, and what is claimed of them.

    Attributes:
        path: The file.
        text: Its content.
        title: The title of the report.
        graphs: The graphs by name: their directories or names.
        models: The models by name.
        seeds: Training seeds.
        alphas: Predictive sharpness of the tables.
        betas: Popularity-bias robustness of the tables.
        metrics: Further metrics.
        level: Confidence level of intervals and verdicts.
        claims: The claims.
        openworld: Where open-world ranks come from.
    """

    path: Path
    text: str
    title: str
    graphs: Mapping[str, str]
    models: Mapping[str, ModelSpec]
    seeds: tuple[int, ...] = (0, 1, 2)
    alphas: tuple[float, ...] = tuple(map(float, PAPER_ALPHAS))
    betas: tuple[float, ...] = tuple(map(float, PAPER_BETAS))
    metrics: tuple[Metric, ...] = ()
    level: float = 0.95
    claims: tuple[Claim, ...] = ()
    openworld: OpenWorldSpec = OpenWorldSpec()

    @property
    def folder(self) -> Path:
        """The folder that relative paths start from."""
        return self.path.parent

    def located(self, pattern: str, graph: str) -> Path:
        """The path that a pattern stands for, relative to the study file."""
        return self.folder / pattern.replace("{graph}", graph)


def init_study(name: str, output: str | os.PathLike[str], *, force: bool = False) -> Path:
    """Write a study that comes with the package, to be run or changed.

    Args:
        name: Its name, such as "probe-paper".
        output: The file to write.
        force: Whether to replace a file that is already there.
    """
    if name not in PACKAGED:
        raise UsageError(
            f"unknown study '{name}'{nearest(name, PACKAGED)}", remedy=f"choose one of {', '.join(PACKAGED)}"
        )
    path = Path(output)
    if path.exists() and not force:
        raise UsageError(f"{path}: the file exists", remedy="choose another file, or replace it with `force=True`")
    with replacing(path) as temporary:
        temporary.write_bytes((Path(__file__).parent / f"{name}.toml").read_bytes())
    return path


def read_study(path: str | os.PathLike[str]) -> Study:
    """Read and validate a study file; all problems are reported at once."""
    file = read_toml(path, remedy="see docs/study.md for an example of a study")
    return _Reading(file.path, file.text, {**file.values, **file.tables}, file.lines).study()


_KEYS = ("title", "graphs", "seeds", "alphas", "betas", "metrics", "level", "models", "openworld", "claims")
_MODEL_KEYS = ("train", "settings", "settings_on", "model", "ranks", "unavailable")
_WORLD_KEYS = ("pairs", "world", "density", "models")
_LARGEST = 100
"""Largest alpha or beta: for larger ones, scores of different ranks cannot be told apart in double precision."""
_CLAIM = re.compile(r"\s*\[\[\s*claims\s*\]\]")
_MODEL = re.compile(
    r"""\s*\[?\s*(?P<inside>models|openworld\.models)\.(?P<quote>["']?)(?P<name>.+?)(?P=quote)\s*[].]"""
)


class _Reading:
    """One reading of a study file, which collects all problems."""

    def __init__(self, path: Path, text: str, entries: Mapping[str, Any], lines: Mapping[str, int]) -> None:
        self.path, self.text, self.entries, self.lines = path, text, entries, dict(lines)
        numbered = list(enumerate(text.splitlines(), 1))
        self.claim_lines = [number for number, line in numbered if _CLAIM.match(line)]
        for number, line in numbered:
            if model := _MODEL.match(line):
                self.lines.setdefault(f"{model['inside']}.{model['name']}", number)
        self.problems: list[str] = []

    def study(self) -> Study:
        self._unknown(self.entries, _KEYS, "")
        graphs = self._graphs()
        models = {name: self._model(name, one, graphs) for name, one in self._table("models").items()}
        if not models and isinstance(self.entries.get("models", {}), Mapping):
            self._problem("models", "there is no model: write for example [models.mine] with ranks or model below it")
        alphas = self._numbers("alphas", PAPER_ALPHAS)
        betas = self._numbers("betas", PAPER_BETAS)
        metrics = self._metrics()
        level = self.entries.get("level", 0.95)
        if not isinstance(level, float) or not 0 < level < 1:
            self._problem("level", f"level must be a number between 0 and 1, not {shown(level)}")
        scope = Scope(tuple(graphs), tuple(models), alphas, betas, metrics)
        claims = self._claims(scope)
        openworld = self._openworld()
        title = self.entries.get("title", self.path.stem)
        if not isinstance(title, str):
            self._problem("title", f"title must be a text, not {shown(title)}")
        seeds = self._seeds()
        if self.problems:
            raise DataError(f"{self.path}: not a valid study", self.problems, "see docs/study.md for all keys")
        return Study(
            self.path, self.text, title, graphs, models, seeds, alphas, betas, metrics, level, claims, openworld
        )

    def _problem(self, key: str, text: str) -> None:
        line = f"line {self.lines[key]}: " if key in self.lines else ""
        self.problems.append(f"{line}{text}")

    def _unknown(self, table: Mapping[str, Any], known: Sequence[str], inside: str) -> None:
        place = f" in [{inside}]" if inside else ""
        for key in table:
            if key not in known:
                listed = f"{nearest(key, known)}; known are {', '.join(known)}"
                self._problem(inside or key, f"unknown key '{key}'{place}{listed}")

    def _table(self, key: str) -> Mapping[str, Any]:
        found = self.entries.get(key, {})
        if isinstance(found, Mapping):
            return found
        self._problem(key, f"{key} must be a table, such as [{key}.NAME], not {shown(found)}")
        return {}

    def _graphs(self) -> dict[str, str]:
        given = self.entries.get("graphs", [])
        if not is_list(given, str) or not given:
            self._problem("graphs", 'graphs must be a list of names or directories, such as graphs = ["umls"]')
            return {}
        found: dict[str, str] = {}
        for one in given:
            name = Path(one).name
            if name in found:
                self._problem("graphs", f"graphs names '{name}' twice")
            inside = self.path.parent / one
            found[name] = str(inside) if os.path.isdir(inside) else one
        return found

    def _model(self, name: str, given: Any, graphs: Collection[str], inside: str = "models") -> ModelSpec:
        table = f"{inside}.{name}"
        if not isinstance(given, Mapping):
            self._problem(inside, f"[{table}] must be a table, not {shown(given)}")
            return ModelSpec(name)
        self._unknown(given, _MODEL_KEYS, table)
        texts = {}
        for key in ("train", "model", "ranks"):
            value = given.get(key)
            if value is not None and not isinstance(value, str):
                self._problem(table, f"{key} of [{table}] must be a text, not {shown(value)}")
                value = None
            texts[key] = value
        if sum(value is not None for value in texts.values()) > 1:
            self._problem(table, f"[{table}] has several of train, model and ranks: one is enough")
        known, train = list(MODELS), texts["train"]
        if train is not None and train.lower() not in known:
            self._problem(table, f"train of [{table}]: unknown model '{train}'{nearest(train.lower(), known)}")
        settings = given.get("settings", {})
        if not isinstance(settings, Mapping) or (settings and train is None):
            self._problem(table, f"settings of [{table}] must be a table beside train")
            settings = {}
        settings_on = self._by_graph(table, given, "settings_on", Mapping, "tables of settings", graphs)
        if settings_on and train is None:
            self._problem(table, f"settings_on of [{table}] must stand beside train")
        unavailable = self._by_graph(table, given, "unavailable", str, "reasons", graphs)
        return ModelSpec(name, settings=settings, settings_on=settings_on, unavailable=unavailable, **texts)

    def _by_graph(
        self, table: str, given: Mapping[str, Any], key: str, kind: type, what: str, graphs: Collection[str]
    ) -> Mapping[str, Any]:
        """The values of a key for some graphs, by graph."""
        found = given.get(key, {})
        if not isinstance(found, Mapping) or not all(isinstance(one, kind) for one in found.values()):
            self._problem(table, f"{key} of [{table}] must be {what} by graph, not {shown(found)}")
            return {}
        for graph in found:
            if graph not in graphs:
                self._problem(table, f"{key} of [{table}]: graph '{graph}' is not in the study{nearest(graph, graphs)}")
        return found

    def _numbers(self, key: str, default: Iterable[float]) -> tuple[float, ...]:
        given = self.entries.get(key, list(map(float, default)))
        fits = is_list(given, int | float) and all(abs(one) <= _LARGEST for one in given)
        if not fits or not given or len(set(given)) < len(given):
            self._problem(
                key, f"{key} must be a list of different numbers from -{_LARGEST} to {_LARGEST}, not {shown(given)}"
            )
            return tuple(map(float, default))
        return tuple(map(float, given))

    def _seeds(self) -> tuple[int, ...]:
        given = self.entries.get("seeds", [0, 1, 2])
        if not is_list(given, int) or not given or min(given) < 0 or len(set(given)) < len(given):
            self._problem("seeds", f"seeds must be a list of different whole numbers from 0 on, not {shown(given)}")
            return (0,)
        return tuple(given)

    def _metrics(self) -> tuple[Metric, ...]:
        given = self.entries.get("metrics", [])
        try:
            if not is_list(given, str):
                raise UsageError(f"metrics must be a list of names, not {shown(given)}")
            return tuple(parse_all(given)) if given else ()
        except KgprobeError as error:
            self._problem("metrics", flat(error))
            return ()

    def _openworld(self) -> OpenWorldSpec:
        given = self._table("openworld")
        self._unknown(given, _WORLD_KEYS, "openworld")
        pairs, density, world = given.get("pairs", []), given.get("density", 0.75), given.get("world")
        if not is_list(pairs, str):
            self._problem("openworld", f"pairs of [openworld] must be a list of folders, not {shown(pairs)}")
            pairs = []
        if not isinstance(density, float) or not 0 < density < 1:
            self._problem("openworld", f"density of [openworld] must be between 0 and 1, not {shown(density)}")
        if world is not None and not isinstance(world, str):
            self._problem("openworld", f"world of [openworld] must be a graph, not {shown(world)}")
        models = given.get("models", {})
        if not isinstance(models, Mapping):
            self._problem("openworld", f"models of [openworld] must be tables, not {shown(models)}")
            models = {}
        made = {name: self._model(name, one, (), "openworld.models") for name, one in models.items()}
        if made and world is None:
            self._problem("openworld", "[openworld] has models but no world")
        if bad := [name for name, one in made.items() if one.train is None]:
            self._problem("openworld", f"[openworld] models without train: {', '.join(bad)}")
        return OpenWorldSpec(tuple(pairs), world, density, made)

    def _claims(self, scope: Scope) -> tuple[Claim, ...]:
        given = self.entries.get("claims", [])
        if not is_list(given, Mapping):
            self._problem("claims", "claims must be tables, each below a line [[claims]]")
            return ()
        found: dict[str, Claim] = {}
        names: set[str] = set()
        for number, table in enumerate(given):
            line = f"line {self.claim_lines[number]}: " if number < len(self.claim_lines) else ""
            name = table.get("name", f"claim {number + 1}")
            place = f"{line}claim {shown(name)}: "
            if not isinstance(name, str):
                self.problems.append(f"{place}its name must be a text")
            elif name in names:
                self.problems.append(f"{place}another claim has this name")
            names.add(str(name))
            form = ClaimForm(table, scope)
            claim = form.read(str(name))
            self.problems += [f"{place}{problem}" for problem in form.problems]
            if claim is not None:
                found[str(name)] = claim
        return tuple(found.values())
