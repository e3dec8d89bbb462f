"""Settings of a training run: declared, checked, and resolved from several sources."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgprobe.errors import UsageError, nearest
from kgprobe.metrics import parse_all
from kgprobe.models.registry import MODELS, ModelKind, model_kind, option, problems_of_each
from kgprobe.train.setting_sources import SettingSource, TomlFile, from_file, read_toml, toml_text

OBJECTIVES = ("negative_sampling", "one_vs_all", "k_vs_all")

LOSSES = ("self_adversarial", "cross_entropy", "binary_cross_entropy", "soft_probe")

MANY_ANSWERS = ("cross_entropy", "binary_cross_entropy")

"""The losses that take all answers of a query at once."""

REGULARISERS = ("none", "n3", "l3", "norm")

OPTIMISERS = ("adam", "adagrad")

SCHEDULES = ("constant", "steps", "cosine")

PRECISIONS = ("float32", "tf32", "bfloat16")


@dataclass(frozen=True)
class Settings:
    """The settings of a training run; those that only its model has are in ``options``.

    Attributes:
        model: Name of the model.
        options: The model's own settings, an instance of its ``Options``.
    """

    model: str
    options: Any

    objective: str = option("one_vs_all", "against which answers a fact is trained", choices=OBJECTIVES)
    loss: str = option("cross_entropy", "what is minimised", choices=LOSSES)
    epochs: int = option(100, "passes over all training queries", least=1)
    batch_size: int = option(512, "queries in a step", least=1)
    negatives: int = option(256, "false answers drawn for each query, in negative_sampling", least=1)
    adversarial_temperature: float = option(1.0, "how much likely false answers weigh; 0 for all alike", least=0)
    subsampling: bool = option(False, "whether facts of frequent queries weigh less")
    label_smoothing: float = option(0.0, "share of the truth that is spread over all entities", least=0, most=0.99)
    loss_alpha: float = option(1.0, "sharpness that soft_probe trains for")
    loss_beta: float = option(0.0, "popularity-bias robustness that soft_probe trains for")
    loss_temperature: float = option(1.0, "width of the soft comparison of two scores in soft_probe", above=0)
    reciprocal: bool = option(False, "whether heads are asked for through reverse relations")

    regulariser: str = option("none", "what keeps vectors small", choices=REGULARISERS)
    regularisation: float = option(0.0, "weight of the regulariser", least=0)

    optimiser: str = option("adam", "how parameters follow the gradient", choices=OPTIMISERS)
    learning_rate: float = option(1e-3, "step size at the start", above=0)
    schedule: str = option("constant", "how the step size falls", choices=SCHEDULES)
    decay: float = option(0.1, "factor of the step size at each fall", above=0, most=1)
    decay_every: int = option(0, "epochs between falls of schedule steps; 0 for half of all epochs", least=0)

    validate_every: int = option(5, "epochs between validations", least=1)
    validation_facts: int = option(0, "validation facts that are ranked, a fixed sample; 0 for all", least=0)
    patience: int = option(10, "validations without gain of any target until training stops; 0 for never", least=0)
    select: tuple[str, ...] = option(("PROBE(alpha=1,beta=0)",), "metrics, each of which keeps its best checkpoint")

    snapshot_every: int = option(0, "epochs between snapshots, all of which are kept; 0 for none", least=0)

    seeds: tuple[int, ...] = option((0,), "one run for each, all of them at once")
    precision: str = option("float32", "of matrix products while training on a GPU", choices=PRECISIONS)

    def flat(self) -> dict[str, Any]:
        """All settings that mean something to the model, its own among them, by name.

        Example:
            >>> from kgprobe.models.complex import ComplExOptions
            >>> flat = Settings("ComplEx", ComplExOptions(dimension=32), epochs=7).flat()
            >>> flat["model"], flat["epochs"], flat["dimension"]
            ('ComplEx', 7, 32)
        """
        left_out = {"options", *model_kind(self.model).without}
        own = {
            known.name: getattr(self, known.name) for known in dataclasses.fields(self) if known.name not in left_out
        }
        return own | dataclasses.asdict(self.options)

    def problems(self) -> Iterator[str]:
        """What is wrong with the settings taken together, where each alone makes sense."""
        if self.objective == "k_vs_all" and self.loss not in MANY_ANSWERS:
            yield f"loss is {self.loss}, and must be one of {', '.join(MANY_ANSWERS)} where objective is k_vs_all"
        if self.objective == "k_vs_all" and self.regulariser == "n3" and self.regularisation:
            yield "regulariser is n3, which is of facts, and objective is k_vs_all, where a query has many answers"
        if self.objective == "k_vs_all" and self.subsampling:
            yield "subsampling is true, and must be false where objective is k_vs_all, which asks every query once"
        joint, beside = (getattr(self.options, name, None) for name in ("problems", "problems_with"))
        yield from joint() if joint else ()
        yield from beside(self) if beside else ()


def setting_problems(kind: type[Any], key: str, value: Any) -> Iterator[str]:
    """What is wrong with a value of a setting of the trainer or of a model.

    Args:
        kind: `Settings`, or the options of a model.
        key: The name of the setting.
        value: Its value.

    Example:
        >>> list(setting_problems(Settings, "epochs", 0)), list(setting_problems(Settings, "seeds", (1, 1)))
        (['epochs is 0, and must be at least 1'], ['seeds has 1 more than once'])
    """
    bare: dict[str, Any] = {"model": "", "options": None} if kind is Settings else {}
    in_its_own_words = isinstance(value, tuple) and key in _MORE
    yield from _MORE[key](value) if in_its_own_words else problems_of_each(kind(**bare, **{key: value}))


def metric_names(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The canonical names of metrics.

    Example:
        >>> metric_names(("mrr, hits@3", "MRR"))
        ('MRR', 'Hits@3')
    """
    return tuple(map(str, parse_all(texts)))


def _select_problems(select: tuple[Any, ...]) -> Iterator[str]:
    strange = [repr(name) for name in select if not isinstance(name, str)]
    if strange or not select:
        yield f"select must be a list of one or more metrics, and has {', '.join(strange) or 'none'}"
        return
    for name in select:
        try:
            metric_names((name,))
        except UsageError as error:
            yield f"select: {'. '.join(filter(None, (error.title, *error.problems, error.remedy)))}"


def _seeds_problems(seeds: tuple[Any, ...]) -> Iterator[str]:
    strange = [repr(seed) for seed in seeds if type(seed) is not int or seed < 0]
    if strange or not seeds:
        yield f"seeds must be a list of one or more whole numbers from 0 on, and has {', '.join(strange) or 'none'}"
    repeated = dict.fromkeys(str(seed) for seed in seeds if seeds.count(seed) > 1)
    if repeated:
        yield f"seeds has {', '.join(repeated)} more than once"


_MORE: Mapping[str, Callable[[Any], Iterator[str]]] = {"select": _select_problems, "seeds": _seeds_problems}

PLAIN = "plain default"

"""Where a setting comes from that no source names."""


@dataclass(frozen=True)
class Resolved:
    """The settings of a run.

    Attributes:
        settings: The settings.
        origins: Where each of them comes from.
    """

    settings: Settings
    origins: Mapping[str, str]

    @property
    def given(self) -> dict[str, Any]:
        """The settings that any source names, and the name of the model."""
        return {key: value for key, value in self.settings.flat().items() if self.origins.get(key) != PLAIN}


@dataclass(frozen=True)
class _Known:
    """A setting that there is.

    Attributes:
        kind: The dataclass that declares it.
        default: Its plain default.
    """

    kind: type[Any]
    default: Any


def resolve(model: str, sources: Sequence[SettingSource]) -> Resolved:
    """The settings of a model.

    Args:
        model: The name of the model, in any case.
        sources: Where settings come from, the weakest first.

    Example:
        >>> from kgprobe.train.setting_sources import from_command_line, from_values
        >>> weak, strong = from_values("a file", {"epochs": 5, "gamma": 6}), from_command_line({"epochs": ["7"]})
        >>> found = resolve("rotate", [weak, strong])
        >>> found.settings.epochs, found.settings.options.gamma, found.origins["epochs"]
        (7, 6.0, 'command line')
    """
    kind = model_kind(model)
    options = kind.load().Options
    known = {key: own for key, own in _known(Settings).items() if key not in kind.without} | _known(options)
    values = {key: setting.default for key, setting in known.items()}
    origins, problems = dict.fromkeys(known, PLAIN), []
    for source in sources:
        given = dict(source.values)
        read = {key: source.read(known[key].default, value) for key, value in given.items() if key in known}
        wrong = _problems(kind, known, given | read)
        problems += [f"{source.places[key]}: {problem}" for key, problem in wrong]
        values |= read
        origins |= dict.fromkeys(read, source.name)
    _refuse(kind, problems)
    values["select"] = metric_names(values["select"])
    own = {key: values.pop(key) for key in _known(options)}
    settings = Settings(kind.name, options(**own), **values)
    _refuse(kind, list(settings.problems()))
    return Resolved(settings, origins)


def _refuse(kind: ModelKind, problems: Sequence[str]) -> None:
    if problems:
        remedy = f"'kgprobe train {kind.key} --graph GRAPH --dry-run' shows all settings that there are"
        raise UsageError(f"{kind.name} cannot be trained with these settings", problems, remedy)


def _known(kind: type[Any]) -> dict[str, _Known]:
    return {field.name: _Known(kind, field.default) for field in dataclasses.fields(kind) if field.metadata}


def _problems(kind: ModelKind, known: Mapping[str, _Known], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is wrong with values, each with the setting that it is about."""
    for key, value in values.items():
        if key in known:
            yield from ((key, problem) for problem in setting_problems(known[key].kind, key, value))
        elif key in kind.without:
            yield key, f"there is no setting '{key}' of {kind.name}"
        elif key != "model":
            yield key, f"there is no setting '{key}'{nearest(key, known)}"
        elif not isinstance(value, str) or value.lower() != kind.key:
            yield key, f"these are settings of {value}, not of {kind.name}"


def settings_text(settings: Settings) -> str:
    """All settings as TOML, for `read_settings`."""
    return toml_text(settings.flat())


def read_settings(path: str | os.PathLike[str]) -> Settings:
    """The settings that a file holds in full, the name of the model included.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> settings = resolve("rotate", []).settings
        >>> path = Path(tempfile.mkdtemp()) / "settings.toml"
        >>> _ = path.write_text(settings_text(settings))
        >>> read_settings(path) == settings
        True
    """
    file = read_toml(path)
    return resolve(_named_model(file), [from_file(file)]).settings


def _named_model(file: TomlFile) -> str:
    model = file.values.get("model")
    if isinstance(model, str):
        return model
    raise UsageError(f"{file.path}: which model are these settings of?", remedy='add a line such as model = "RotatE"')


_INTRODUCTION = """# Settings of `kgprobe train`

Generated by `make docs`; do not edit. [Training models](training.md) says where values come from; the plain default is
what is left where no source names a setting. `kgprobe train MODEL --graph GRAPH --dry-run` shows what a run would use.
"""


def settings_page() -> str:
    """The settings of the trainer and of every model, in Markdown."""
    parts = [_INTRODUCTION, "## All models\n", *_table(Settings)]
    for kind in MODELS.values():
        parts += [
            f"\n## {kind.name}\n",
            f"{kind.summary[0].upper()}{kind.summary[1:]}.\n",
            *_table(kind.load().Options),
            *_left_out(kind),
        ]
    return "\n".join(parts) + "\n"


def _table(kind: type[Any]) -> Iterator[str]:
    yield "| setting | plain default | values | meaning |"
    yield "| --- | --- | --- | --- |"
    for field in dataclasses.fields(kind):
        if rules := field.metadata:
            yield f"| `{field.name}` | {_shown(field.default)} | {values(rules)} | {rules['meaning']} |"


def _left_out(kind: ModelKind) -> Iterator[str]:
    """Which settings of all models it does not have."""
    if kind.without:
        named = [field.name for field in dataclasses.fields(Settings) if field.name in kind.without]
        yield f"\nIt does not have {', '.join(f'`{name}`' for name in named)}."


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return ", ".join(map(_shown, default))
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def values(rules: Mapping[str, Any]) -> str:
    """Which values of a setting make sense, in words.

    Args:
        rules: What `option` says of the setting.

    Example:
        >>> values({"choices": (), "least": 0, "above": None, "most": 0.95})
        'from 0 to 0.95'
        >>> values({"choices": ("adam", "adagrad"), "least": None, "above": None, "most": None})
        '`adam`, `adagrad`'
    """
    if rules["choices"]:
        return ", ".join(f"`{choice}`" for choice in rules["choices"])
    words = {"least": "from {:g}", "above": "above {:g}", "most": "to {:g}"}
    return " ".join(text.format(rules[bound]) for bound, text in words.items() if rules[bound] is not None)
