"""Settings of a run from several sources, the stronger before the weaker, with all that is wrong said at once."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kgprobe.errors import UsageError, nearest
from kgprobe.models.registry import ModelKind, model_kind
from kgprobe.train.settings import Settings, metric_names, setting_problems
from kgprobe.train.sources import Source, from_file
from kgprobe.train.toml import TomlFile, read_toml, toml_text

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


def resolve(model: str, sources: Sequence[Source]) -> Resolved:
    """The settings of a model.

    Args:
        model: The name of the model, in any case.
        sources: Where settings come from, the weakest first.

    Example:
        >>> from kgprobe.train.sources import from_command_line, from_values
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
