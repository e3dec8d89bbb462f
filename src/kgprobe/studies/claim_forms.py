"""Claims in a study file: the keys of every kind, read and checked against the cells of the study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from kgprobe.errors import KgprobeError, UsageError, nearest, shown
from kgprobe.metrics import Metric, parse
from kgprobe.metrics.metric import MeanMetric, spelled
from kgprobe.metrics.popularity_metrics import PROBE
from kgprobe.metrics.six_properties import Property
from kgprobe.studies.claim_kinds import (
    BestChanges,
    Better,
    Claim,
    MoreRanks,
    NoBest,
    OrderChanges,
    Overtakes,
    Place,
    PlaceAt,
    RareLoss,
    Wins,
)
from kgprobe.studies.fact_claims import HasProperties, KeepsOrder, Theory


def is_list(value: Any, kind: Any) -> bool:
    """Whether a value is a list of items of this type; truth values are no numbers."""
    return isinstance(value, list) and all(isinstance(one, kind) and not isinstance(one, bool) for one in value)


def flat(error: KgprobeError) -> str:
    """An error in one line."""
    return "; ".join(filter(None, [error.title, *error.problems, error.remedy]))


@dataclass(frozen=True)
class Scope:
    """The cells that a claim can be about."""

    graphs: tuple[str, ...]
    models: tuple[str, ...]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    metrics: tuple[Metric, ...]


_LARGEST = 1e6
_SHARED = ("name", "kind", "statement", "section")
_POINT = ("alpha", "beta", "metric")


class ClaimForm:
    """The reading of one claim, which collects all its problems."""

    def __init__(self, table: Mapping[str, Any], scope: Scope) -> None:
        self.table, self.scope = table, scope
        self.problems: list[str] = []

    def read(self, name: str) -> Claim | None:
        kind = self.table.get("kind")
        if kind not in _FORMS:
            known = nearest(kind, _FORMS) if isinstance(kind, str) else ""
            self.problems.append(f"unknown kind {shown(kind)}{known}; known are {', '.join(_FORMS)}")
            return None
        keys, make = _FORMS[kind]
        for key in self.table:
            if key not in (*_SHARED, *keys):
                known_keys = ", ".join((*_SHARED, *keys))
                self.problems.append(f"unknown key '{key}'{nearest(key, keys)}; known are {known_keys}")
        about = {"name": name, "statement": self.text("statement", name), "section": self.text("section", "")}
        made = make(self, about)
        return None if self.problems else made

    def text(self, key: str, default: str | None = None) -> str:
        value = self.table.get(key, default)
        if isinstance(value, str):
            return value
        self.problems.append(f"{key} is missing" if value is None else f"{key} must be a text, not {shown(value)}")
        return ""

    def number(self, key: str, default: float | None = None, *, low: float, high: float, whole: bool = False) -> Any:
        value = self.table.get(key, default)
        kinds = int if whole else int | float
        if isinstance(value, kinds) and not isinstance(value, bool) and low <= value <= high:
            return value
        allowed = f"{'a whole number' if whole else 'a number'} from {low:g} to {high:g}"
        self.problems.append(f"{key} is missing" if value is None else f"{key} must be {allowed}, not {shown(value)}")
        return low

    def model(self, key: str) -> str:
        return self._of_study(self.text(key), self.scope.models, "model")

    def graph(self) -> tuple[str, ...]:
        return (self._of_study(self.text("graph"), self.scope.graphs, "graph"),)

    def graphs(self) -> tuple[str, ...]:
        given = self.table.get("graphs", list(self.scope.graphs))
        if not is_list(given, str) or not given:
            self.problems.append(f"graphs must be a list of names, not {shown(given)}")
            return ()
        return tuple(self._of_study(one, self.scope.graphs, "graph") for one in given)

    def _of_study(self, name: str, known: Sequence[str], what: str) -> str:
        if name and name not in known:
            self.problems.append(f"{what} '{name}' is not in the study{nearest(name, known)}")
        return name

    def points(self, table: Mapping[str, Any] | None = None) -> tuple[Metric, ...]:
        """The metrics at ``alpha`` and ``beta``, which may be lists, or by name."""
        given = self.table if table is None else table
        if "metric" in given:
            return self._named(given)
        if "alpha" not in given:
            self.problems.append("alpha or metric is missing")
            return ()
        axes = [self._axis(given, "alpha", self.scope.alphas), self._axis(given, "beta", self.scope.betas)]
        return tuple(PROBE(alpha=alpha, beta=beta) for alpha, beta in product(*axes))

    def _named(self, given: Mapping[str, Any]) -> tuple[Metric, ...]:
        if "alpha" in given or "beta" in given:
            self.problems.append("give either metric or alpha and beta")
            return ()
        texts = given["metric"] if isinstance(given["metric"], list) else [given["metric"]]
        found = [self.metric_named(text) for text in texts]
        for metric in filter(None, found):
            if metric not in self.scope.metrics:
                self.problems.append(f"metric {metric} is not in the study; add it to metrics")
            elif not isinstance(metric, MeanMetric):
                self.problems.append(f"{metric} has no derivative, so claims cannot be about it; choose a mean")
        return tuple(metric for metric in found if metric is not None)

    def metric_named(self, text: Any) -> Metric | None:
        try:
            if not isinstance(text, str):
                raise UsageError(f"a metric must be a text, not {shown(text)}")
            return parse(text)
        except KgprobeError as error:
            self.problems.append(flat(error))
            return None

    def _axis(self, given: Mapping[str, Any], key: str, known: Sequence[float]) -> list[float]:
        value = given.get(key, 0.0)
        if value == "all":
            return list(known)
        numbers = value if isinstance(value, list) else [value]
        if not is_list(numbers, int | float) or not numbers or not all(abs(one) <= _LARGEST for one in numbers):
            self.problems.append(f'{key} must be a number, a list of numbers or "all", not {shown(value)}')
            return []
        if outside := [number for number in numbers if float(number) not in known]:
            listed = ", ".join(map(spelled, known))
            self.problems.append(f"{key} {', '.join(map(spelled, outside))} is not in the study; it has {listed}")
        return [float(number) for number in numbers]

    def point(self, key: str | None = None) -> Any:
        """One metric: of the claim itself, or of the inline table at a key."""
        table = self.table if key is None else self.table.get(key)
        if not isinstance(table, Mapping):
            self.problems.append(f"{key} must be a point such as {{alpha = 1, beta = 0}}, not {shown(table)}")
            return None
        found = self.points(table)
        if len(found) > 1:
            self.problems.append(f"{key or 'the claim'} must be a single point")
        return found[0] if found else None

    def places(self) -> tuple[PlaceAt, ...]:
        given = self.table.get("at", [{key: self.table[key] for key in ("place", *_POINT) if key in self.table}])
        if not is_list(given, Mapping) or not given:
            self.problems.append("at must be a list of places such as [{place = 1, alpha = 1}]")
            return ()
        made = []
        for one in given:
            inside = ClaimForm(one, self.scope)
            place = inside.number("place", low=1, high=max(len(self.scope.models), 1), whole=True)
            metric = inside.point()
            unknown = [f"unknown key '{key}' in at" for key in one if key not in ("place", *_POINT)]
            self.problems += inside.problems + unknown
            if not inside.problems:
                made.append(PlaceAt(place, metric))
        return tuple(made)

    def properties(self, key: str) -> tuple[Property, ...]:
        given = self.table.get(key, [])
        known = {str(one): one for one in Property}
        if not is_list(given, str):
            self.problems.append(f"{key} must be a list of properties, not {shown(given)}")
            return ()
        self.problems += [
            f"unknown property '{name}'{nearest(name, known)}; known are {', '.join(known)}"
            for name in given
            if name not in known
        ]
        return tuple(known[name] for name in given if name in known)


def _place(form: ClaimForm, about: dict[str, str]) -> Claim:
    return Place(**about, graphs=form.graph(), model=form.model("model"), at=form.places())


def _better(form: ClaimForm, about: dict[str, str]) -> Claim:
    share = form.number("share", 1.0, low=0, high=1)
    models = {"model": form.model("model"), "other": form.model("than")}
    return Better(**about, graphs=form.graph(), **models, at=form.points(), share=share)


def _overtakes(form: ClaimForm, about: dict[str, str]) -> Claim:
    models = {"model": form.model("model"), "other": form.model("other")}
    return Overtakes(**about, graphs=form.graph(), **models, start=form.point("start"), end=form.point("end"))


def _order_changes(form: ClaimForm, about: dict[str, str]) -> Claim:
    share = form.number("share", low=0, high=1)
    return OrderChanges(**about, graphs=form.graph(), start=form.point("start"), end=form.point("end"), share=share)


def _best_changes(form: ClaimForm, about: dict[str, str]) -> Claim:
    return BestChanges(**about, graphs=form.graph(), start=form.point("start"), end=form.point("end"))


def _more_ranks(form: ClaimForm, about: dict[str, str]) -> Claim:
    low = form.number("low", low=1, high=1e15)
    high = form.number("high", low=low, high=1e15)
    models = {"model": form.model("model"), "other": form.model("other")}
    return MoreRanks(**about, graphs=form.graph(), **models, low=float(low), high=float(high))


def _rare_loss(form: ClaimForm, about: dict[str, str]) -> Claim:
    groups = form.number("groups", 4, low=2, high=100, whole=True)
    models = {"model": form.model("model"), "other": form.model("other")}
    return RareLoss(**about, graphs=form.graph(), **models, at=form.point(), groups=groups)


def _no_best(form: ClaimForm, about: dict[str, str]) -> Claim:
    return NoBest(**about, graphs=form.graphs(), at=form.points())


def _wins(form: ClaimForm, about: dict[str, str]) -> Claim:
    share, graph_share = (form.number(key, 1.0, low=0, high=1) for key in ("share", "graph_share"))
    model = form.model("model")
    return Wins(**about, graphs=form.graphs(), model=model, at=form.points(), share=share, graph_share=graph_share)


def _property(form: ClaimForm, about: dict[str, str]) -> Claim:
    metric: Any = form.metric_named(form.table.get("metric"))
    return HasProperties(**about, metric=metric, has=form.properties("has"), lacks=form.properties("lacks"))


def _theory(form: ClaimForm, about: dict[str, str]) -> Claim:
    claim = Theory(**about, sentence=form.text("sentence"))
    if not form.problems and not claim.results():
        form.problems.append(f"no sentence of 'kgprobe openworld lemma' begins with '{claim.sentence}'")
    return claim


def _keeps_order(form: ClaimForm, about: dict[str, str]) -> Claim:
    metric, than = (form.metric_named(form.table.get(key)) for key in ("metric", "than"))
    late = form.table.get("late", False)
    if not isinstance(late, bool):
        form.problems.append(f"late must be true or false, not {shown(late)}")
    missing = float(form.number("missing", low=0, high=1))
    return KeepsOrder(**about, metric=metric, than=than, missing=missing, late=late)  # type: ignore[arg-type]


_Make = Callable[[ClaimForm, dict[str, str]], Claim]

_FORMS: dict[str, tuple[tuple[str, ...], _Make]] = {
    Place.kind: (("graph", "model", "place", "at", *_POINT), _place),
    Better.kind: (("graph", "model", "than", "share", *_POINT), _better),
    Overtakes.kind: (("graph", "model", "other", "start", "end"), _overtakes),
    OrderChanges.kind: (("graph", "start", "end", "share"), _order_changes),
    BestChanges.kind: (("graph", "start", "end"), _best_changes),
    MoreRanks.kind: (("graph", "model", "other", "low", "high"), _more_ranks),
    RareLoss.kind: (("graph", "model", "other", "groups", *_POINT), _rare_loss),
    NoBest.kind: (("graphs", *_POINT), _no_best),
    Wins.kind: (("graphs", "model", "share", "graph_share", *_POINT), _wins),
    HasProperties.kind: (("metric", "has", "lacks"), _property),
    Theory.kind: (("sentence",), _theory),
    KeepsOrder.kind: (("metric", "than", "missing", "late"), _keeps_order),
}
