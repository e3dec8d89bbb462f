"""Settings of a training run: declared, resolved from several sources, validated, and documented."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgprobe.errors import UsageError, nearest, shown
from kgprobe.metrics import parse_all
from kgprobe.models.random_streams import SEEDS
from kgprobe.models.registry import MODELS, ModelKind, model_kind, option, problems_of_each
from kgprobe.train.setting_sources import SettingSource, from_file, read_toml, toml_text

OBJECTIVES = ("negative_sampling", "one_vs_all", "k_vs_all")
LOSSES = ("self_adversarial", "cross_entropy", "binary_cross_entropy", "soft_probe")
K_VS_ALL_LOSSES = ("cross_entropy", "binary_cross_entropy")
REGULARISERS = ("none", "n3", "l3", "norm")
OPTIMISERS = ("adam", "adagrad")
SCHEDULES = ("constant", "steps", "cosine")
PRECISIONS = ("float32", "tf32", "bfloat16")

LARGEST_SEED = (1 << 53) - 1
"""Larger seeds are not exact in double precision, so that two of them could be taken for one."""

PLAIN = "plain default"
"""Origin of a setting that no source names."""


@dataclass(frozen=True)
class Settings:
    """The settings of a training run; ``options`` are those that only its model has.

    Attributes:
        model: Name of the model.
        options: The model's own settings, an instance of its ``Options``.
    """

    model: str
    options: Any

    objective: str = option("one_vs_all", "candidates that a training triple is compared with", choices=OBJECTIVES)
    loss: str = option("cross_entropy", "loss function", choices=LOSSES)
    epochs: int = option(100, "passes over all training queries", least=1)
    batch_size: int = option(512, "queries in a step", least=1)
    negatives: int = option(256, "negative samples for each query, in negative_sampling", least=1)
    adversarial_temperature: float = option(1.0, "weight of hard negative samples; 0 for equal weights", least=0)
    subsampling: bool = option(False, "whether triples of frequent queries weigh less")
    label_smoothing: float = option(0.0, "share of the label spread over all entities", least=0, most=0.99)
    loss_alpha: float = option(1.0, "sharpness alpha of the soft_probe loss")
    loss_beta: float = option(0.0, "popularity-bias robustness beta of the soft_probe loss")
    loss_temperature: float = option(1.0, "temperature of the score comparison in the soft_probe loss", above=0)
    reciprocal: bool = option(False, "whether head queries are tail queries of reciprocal relations")

    regulariser: str = option("none", "regulariser of the embeddings", choices=REGULARISERS)
    regularisation: float = option(0.0, "weight of the regulariser", least=0)

    optimiser: str = option("adam", "optimiser", choices=OPTIMISERS)
    learning_rate: float = option(1e-3, "initial learning rate", above=0)
    schedule: str = option("constant", "learning-rate schedule", choices=SCHEDULES)
    decay: float = option(0.1, "factor of the learning rate at each step of schedule steps", above=0, most=1)
    decay_every: int = option(0, "epochs between the steps of schedule steps; 0 for half of all epochs", least=0)

    validate_every: int = option(5, "epochs between validations", least=1)
    validation_facts: int = option(0, "validation triples that are ranked, a fixed sample; 0 for all", least=0)
    patience: int = option(
        10, "early stopping: validations without improvement in any selection metric; 0 for never", least=0
    )
    select: tuple[str, ...] = option(("PROBE(alpha=1,beta=0)",), "selection metrics; each keeps its best checkpoint")

    snapshot_every: int = option(0, "epochs between snapshots, all of which are kept; 0 for none", least=0)

    seeds: tuple[int, ...] = option(
        (0,), "training seeds; one run for each, trained together", least=0, most=LARGEST_SEED
    )
    precision: str = option("float32", "precision of matrix products on a GPU during training", choices=PRECISIONS)

    def flat(self) -> dict[str, Any]:
        """All settings that apply to the model, its own included, by name.

        Example:
            >>> from kgprobe.models.complex import ComplExOptions
            >>> flat = Settings("ComplEx", ComplExOptions(dimension=32), epochs=7).flat()
            >>> flat["model"], flat["epochs"], flat["dimension"]
            ('ComplEx', 7, 32)
        """
        excluded = {"options", *model_kind(self.model).without}
        names = (field.name for field in dataclasses.fields(self))
        return {name: getattr(self, name) for name in names if name not in excluded} | dataclasses.asdict(self.options)

    def problems(self) -> Iterator[str]:
        """Invalid combinations of settings that are valid on their own."""
        if self.objective == "k_vs_all" and self.loss not in K_VS_ALL_LOSSES:
            yield f"loss is {self.loss}, and must be one of {', '.join(K_VS_ALL_LOSSES)} where objective is k_vs_all"
        if self.objective == "k_vs_all" and self.regulariser == "n3" and self.regularisation:
            yield "regulariser is n3, which is computed per triple, and objective is k_vs_all, which trains on queries"
        if self.objective == "k_vs_all" and self.subsampling:
            yield "subsampling is true, and must be false where objective is k_vs_all, which asks every query once"
        own, joint = (getattr(self.options, name, None) for name in ("problems", "problems_with"))
        yield from own() if own else ()
        yield from joint(self) if joint else ()


@dataclass(frozen=True)
class Resolved:
    """The settings of a run and where each of them comes from."""

    settings: Settings
    origins: Mapping[str, str]

    @property
    def given(self) -> dict[str, Any]:
        """The settings that any source names, and the name of the model."""
        return {key: value for key, value in self.settings.flat().items() if self.origins.get(key) != PLAIN}


def resolve(model: str, sources: Sequence[SettingSource]) -> Resolved:
    """Resolve and validate the settings of a model.

    Args:
        model: Name of the model, in any case.
        sources: Sources of settings; later ones override earlier ones.

    Raises:
        UsageError: Settings are unknown or invalid; with all problems, each with its place.

    Example:
        >>> from kgprobe.train.setting_sources import from_command_line, from_values
        >>> weak, strong = from_values("a file", {"epochs": 5, "gamma": 6}), from_command_line({"epochs": ["7"]})
        >>> resolved = resolve("rotate", [weak, strong])
        >>> resolved.settings.epochs, resolved.settings.options.gamma, resolved.origins["epochs"]
        (7, 6.0, 'command line')
    """
    kind = model_kind(model)
    options = kind.load().Options
    own = _declared(options)
    known = {name: field for name, field in _declared(Settings).items() if name not in kind.without} | own
    values: dict[str, Any] = {name: field.default for name, field in known.items()}
    origins, problems = dict.fromkeys(known, PLAIN), []
    for source in sources:
        read = {key: source.read(known[key].default, value) for key, value in source.values.items() if key in known}
        for key, value in (dict(source.values) | read).items():
            declares = options if key in own else Settings
            wrong = _value_problems(declares, key, value) if key in known else _unknown(kind, known, key, value)
            problems += [f"{source.places[key]}: {problem}" for problem in wrong]
        values |= read
        origins |= dict.fromkeys(read, source.name)
    _refuse(kind, problems)
    values["select"] = _metric_names(values["select"])
    settings = Settings(kind.name, options(**{key: values.pop(key) for key in own}), **values)
    _refuse(kind, list(settings.problems()))
    return Resolved(settings, origins)


def _declared(kind: type[Any]) -> dict[str, dataclasses.Field[Any]]:
    return {field.name: field for field in dataclasses.fields(kind) if field.metadata}


def _refuse(kind: ModelKind, problems: Sequence[str]) -> None:
    if problems:
        remedy = f"'kgprobe train {kind.key} --graph GRAPH --dry-run' lists all settings"
        raise UsageError(f"{kind.name} cannot be trained with these settings", problems, remedy)


def _unknown(kind: ModelKind, known: Mapping[str, Any], key: str, value: Any) -> Iterator[str]:
    if key in kind.without:
        yield f"there is no setting {shown(key)} of {kind.name}"
    elif key != "model":
        yield f"there is no setting {shown(key)}{nearest(key, known)}"
    elif not isinstance(value, str) or value.lower() != kind.key:
        yield f"these are settings of {value if isinstance(value, str) else shown(value)}, not of {kind.name}"


def _value_problems(declares: type[Any], key: str, value: Any) -> Iterator[str]:
    """Validate one value of `Settings` or of a model's options."""
    if key in _LISTS and isinstance(value, tuple):
        return _LISTS[key](value)
    required: dict[str, Any] = {"model": "", "options": None} if declares is Settings else {}
    return problems_of_each(declares(**required, **{key: value}))


def _metric_names(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(str, parse_all(texts)))


def _select_problems(select: tuple[Any, ...]) -> Iterator[str]:
    invalid = [shown(name) for name in select if not isinstance(name, str)]
    if invalid or not select:
        yield f"select must be a list of one or more metrics, and has {', '.join(invalid) or 'none'}"
        return
    for name in select:
        try:
            _metric_names((name,))
        except UsageError as error:
            yield f"select: {'. '.join(filter(None, (error.title, *error.problems, error.remedy)))}"


def _seeds_problems(seeds: tuple[Any, ...]) -> Iterator[str]:
    valid = [seed for seed in seeds if _is_seed(seed)]
    invalid = [shown(seed) for seed in seeds if not _is_seed(seed)]
    if invalid or not seeds:
        allowed = f"one or more whole numbers from 0 to {LARGEST_SEED}"
        yield f"seeds must be a list of {allowed}, and has {', '.join(invalid) or 'none'}"
    repeated = dict.fromkeys(str(seed) for seed in valid if valid.count(seed) > 1)
    if repeated:
        yield f"seeds has {', '.join(repeated)} more than once"
    generators: dict[int, list[str]] = {}
    for seed in dict.fromkeys(valid):
        generators.setdefault(seed % SEEDS, []).append(str(seed))
    for same in generators.values():
        if len(same) > 1:
            yield f"seeds has {' and '.join(same)}, which draw the same random numbers: equal modulo {SEEDS}"


def _is_seed(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST_SEED


_LISTS: Mapping[str, Callable[[Any], Iterator[str]]] = {"select": _select_problems, "seeds": _seeds_problems}


def settings_text(settings: Settings) -> str:
    """All settings as TOML, for `read_settings`."""
    return toml_text(settings.flat())


def read_settings(path: str | os.PathLike[str]) -> Settings:
    """Read a file with all settings of a run, the name of the model included."""
    file = read_toml(path)
    model = file.values.get("model")
    if not isinstance(model, str):
        raise UsageError(f"{file.path}: it does not name its model", remedy='add a line such as model = "RotatE"')
    if model.lower() not in MODELS:
        known = nearest(model, (kind.name for kind in MODELS.values()))
        raise UsageError(f"{file.path}: there is no model {shown(model)}{known}", remedy="see kgprobe train --help")
    return resolve(model, [from_file(file)]).settings


_INTRODUCTION = """# Settings of `kgprobe train`

Generated by `make docs`; do not edit. [Training models](training.md) says where values come from; the plain default is
used where no source names a setting. `kgprobe train MODEL --graph GRAPH --dry-run` prints the settings of a run.
"""


def settings_page() -> str:
    """The reference page of all settings, in Markdown."""
    parts = [_INTRODUCTION, "## All models\n", *_table(Settings)]
    for kind in MODELS.values():
        summary = f"{kind.summary[0].upper()}{kind.summary[1:]}.\n"
        parts += [f"\n## {kind.name}\n", summary, *_table(kind.load().Options)]
        if kind.without:
            names = [f"`{name}`" for name in _declared(Settings) if name in kind.without]
            parts.append(f"\nIt does not have {', '.join(names)}.")
    return "\n".join(parts) + "\n"


def _table(kind: type[Any]) -> Iterator[str]:
    yield "| setting | plain default | values | meaning |"
    yield "| --- | --- | --- | --- |"
    for name, field in _declared(kind).items():
        rules = field.metadata
        yield f"| `{name}` | {_default(field.default)} | {_allowed(rules)} | {rules['meaning']} |"


def _default(default: Any) -> str:
    if isinstance(default, tuple):
        return ", ".join(map(_default, default))
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _allowed(rules: Mapping[str, Any]) -> str:
    """The allowed values of a setting."""
    if rules["choices"]:
        return ", ".join(f"`{choice}`" for choice in rules["choices"])
    words = {"least": "from {}", "above": "above {}", "most": "to {}"}
    return " ".join(text.format(rules[bound]) for bound, text in words.items() if rules[bound] is not None)
