"""Plausibility: sides and relations on which the ranks of a model are implausible given those of the other models.

Ranks that are partly random, or that belong to other queries, may have the mean of a mediocre model. But a mediocre
model rarely gives a chance-level rank to a target that all other models rank among the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kgprobe.arrays import Flags
from kgprobe.audit.model_skill import (
    Skills,
    UncorrelatedModel,
    is_outlier,
    outliers,
    skills_of,
    uncorrelated_models,
)
from kgprobe.audit.view import Finding, Severity, View

_KIND = "implausible"
_FEWEST_MODELS = 3
_FEWEST_EASY = 100
_EASY = 0.7  # least skill of all other models on an easy query: rank 25 of 40,000 candidates, rank 4 of 130
_CHANCE = 0.3  # skill below this is chance level: ranks above 1,700 of 40,000 candidates, above 31 of 130
_OFTEN = 0.35  # least share of failures on the easy queries of a cell; correctly ranked models stay below 0.25
_SELDOM = 0.04  # largest share of failures in other relations; a model that fails more often is simply weak


@dataclass(frozen=True)
class EasyFailures:
    """A relation and side on which a model fails at easy queries.

    Attributes:
        model: Index of the model.
        cell: Index of the cell.
        easy: Number of its queries that are easy for all other models.
        share: Share of the easy queries on which the model fails.
        elsewhere: The same share in all other relations.
    """

    model: int
    cell: int
    easy: int
    share: float
    elsewhere: float


def easy_failures(skills: Skills) -> Iterator[EasyFailures]:
    """Cells where a model often ranks at chance level although the queries are easy for all other models.

    Example:
        >>> scale = np.full((3, 2000), 0.9)
        >>> scale[2, :200] = np.where(np.arange(200) % 2, 0.9, 0.1)
        >>> relation, side = np.arange(2000) // 200, np.ones(2000, bool)
        >>> skills = Skills(("A", "B", "C"), np.stack([scale, scale]), scale, relation, side)
        >>> [(found.model, found.cell, found.share, found.elsewhere) for found in easy_failures(skills)]
        [(2, 0, 0.5, 0.0)]
    """
    if len(skills.models) < _FEWEST_MODELS:
        return
    scale, cells = skills.scales[0], skills.cells
    for model in range(len(scale)):
        easy = (np.delete(scale, model, axis=0) >= _EASY).all(axis=0)
        many, failed = (
            np.bincount(cells.which, weights=flags, minlength=len(cells.size))
            for flags in (easy, easy & (scale[model] < _CHANCE))
        )
        share = failed / np.maximum(many, 1)
        for cell in np.flatnonzero((many >= _FEWEST_EASY) & (share >= _OFTEN)):
            other = cells.relation != cells.relation[cell]
            if many[other].sum() < _FEWEST_EASY:
                continue
            elsewhere = float(failed[other].sum() / many[other].sum())
            if elsewhere <= _SELDOM:
                yield EasyFailures(model, int(cell), int(many[cell]), float(share[cell]), elsewhere)


_FEWEST_QUERIES = 30
_CELL = (0.25, 0.4)  # least distance of an outlier in a relation on one side: logarithmic and reciprocal skill
_SIDE = (0.2, 0.25)  # the same for a whole side, over which differences between models average out
_Z_SCORE = 3.4  # least z-score of an outlier; correctly ranked models stay below it on all graphs that were tried
_Z_FURTHER = 2.0  # the same for further relations of a model and side that has an outlier
# Least share of a side's queries for a warning: an error there can change the MRR of the side by as much. On smaller
# relations, a correctly ranked model of low capacity may fail completely.
_MATTERS = 0.03
_NAMED = 5


def check_plausibility(view: View) -> Iterator[Finding]:
    """Sides on which a model is too good or too bad compared with the others, as a whole or in some relations.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> n = np.arange(400)
        >>> def model(**columns):
        ...     side = np.where(n % 2, "tail", "head")
        ...     return Ranks.from_columns(
        ...         head=n, relation=n // 2 % 4, tail=n + 400, side=side, candidates=n * 0 + 800, **columns
        ...     )
        >>> correct = {name: model(rank=2 + (n * step) % 5) for name, step in (("A", 3), ("B", 7), ("C", 11))}
        >>> broken = model(rank=np.where(n % 2, 300 + n % 7, 2 + n % 5))
        >>> [(found.models, found.kind) for found in check_plausibility(prepare({**correct, "D": broken}, None))]
        [(('D',), 'implausible')]
    """
    skills = skills_of(view)
    if len(skills.models) == 2:
        yield from _lopsided(skills)
    uncorrelated = list(uncorrelated_models(skills))
    yield from (_uncorrelated(view, skills, one) for one in uncorrelated)
    for model in sorted({one.model for one in uncorrelated}, reverse=True):
        skills = skills.without(model)
    while len(skills.models) >= _FEWEST_MODELS and len(skills.relation):
        places = _outlying_sides(skills)
        if not places:
            break
        # A reported model is not compared with the others any more.
        worst = max({place.model for place in places}, key=lambda model: _extent(skills, places, model))
        own = [place for place in places if place.model == worst]
        # If a whole side is wrong, the other side cannot be judged by it.
        yield from (_outlying(view, skills, place) for place in [p for p in own if p.whole] or own)
        skills = skills.without(worst)
    failures = list(easy_failures(skills))
    for model in sorted({failure.model for failure in failures}):
        yield _failing(view, skills, [failure for failure in failures if failure.model == model])


@dataclass(frozen=True)
class _Place:
    """A side on which a model is an outlier.

    Attributes:
        model: Index of the model.
        tail: Whether it is the tail side.
        cells: Cells of this side in which it is an outlier.
        clear: Those in which it certainly is.
        whole: Whether it is an outlier on the side as a whole.
    """

    model: int
    tail: bool
    cells: Flags
    clear: Flags
    whole: bool

    def queries(self, skills: Skills) -> int:
        """Number of queries concerned."""
        return int((skills.predicts_tail == self.tail).sum() if self.whole else skills.cells.size[self.cells].sum())

    def matters(self, skills: Skills) -> bool:
        """Whether the certain cells have enough queries for a warning."""
        on_side = (skills.predicts_tail == self.tail).sum()
        return self.whole or bool(skills.cells.size[self.clear].sum() >= _MATTERS * on_side)


def _outlying_sides(skills: Skills) -> list[_Place]:
    cells = skills.cells
    in_cells, on_sides = zip(*(outliers(scale, cells) for scale in skills.scales), strict=True)
    many = cells.size >= _FEWEST_QUERIES
    clear, likely = (is_outlier(in_cells, _CELL, z_score) & many for z_score in (_Z_SCORE, _Z_FURTHER))
    whole = is_outlier(on_sides, _SIDE, _Z_SCORE) & (np.bincount(skills.predicts_tail, minlength=2) >= _FEWEST_QUERIES)
    return [
        _Place(model, tail, likely[model] & here, clear[model] & here, bool(whole[model, int(tail)]))
        for model in range(len(skills.models))
        for tail in (False, True)
        if (clear[model] & (here := cells.predicts_tail == tail)).any() or whole[model, int(tail)]
    ]


def _extent(skills: Skills, places: list[_Place], model: int) -> int:
    return sum(place.queries(skills) for place in places if place.model == model)


def _outlying(view: View, skills: Skills, place: _Place) -> Finding:
    model, tail, cells = place.model, place.tail, place.cells
    name, grouped = skills.models[model], skills.cells
    on_side = skills.predicts_tail == tail
    total, of_cells = int(on_side.sum()), int(grouped.size[cells].sum())
    relations = int((grouped.predicts_tail == tail).sum())
    largest = sorted(np.flatnonzero(cells), key=lambda cell: -grouped.size[cell])
    evidence = [
        _against(skills, model, grouped.which == cell, view.relation_name(int(grouped.relation[cell])))
        for cell in largest[:_NAMED]
    ]
    evidence += [f"{len(largest) - _NAMED} more relations"] if len(largest) > _NAMED else []
    evidence.append(_against(skills, model, on_side, f"whole {_side(tail)} side"))
    if (~on_side).any():
        evidence.append(_against(skills, model, ~on_side, f"{_side(not tail)} side"))
    where = "" if place.whole else f" in {len(largest)} of {relations} relations ({of_cells:,} of {total:,} queries)"
    message = (
        f"Ranks on the {_side(tail)} side{where} are implausible compared with the other models: {'; '.join(evidence)}."
        " Look for an error in how this side is scored, indexed or filtered."
    )
    severity = Severity.warning if place.matters(skills) else Severity.note
    return Finding((name,), _KIND, message, severity, place.queries(skills) * len(view.runs[name]))


def _uncorrelated(view: View, skills: Skills, one: UncorrelatedModel) -> Finding:
    name = skills.models[one.model]
    where = "" if one.side == "both" else f" on the {one.side} side"
    message = (
        f"Ranks{where} are uncorrelated with those of the other models, although they are as good: within relations, "
        f"the correlation is at most {one.own:.2f}, but {one.others:.2f} between the others. "
        "Look for ranks that belong to other queries, such as rows in another order."
    )
    return Finding((name,), _KIND, message, Severity.warning, one.queries * len(view.runs[name]))


def _failing(view: View, skills: Skills, failures: list[EasyFailures]) -> Finding:
    name, cells = skills.models[failures[0].model], skills.cells
    evidence = [
        f"{view.relation_name(int(cells.relation[one.cell]))} on the {_side(bool(cells.predicts_tail[one.cell]))} side"
        f": {one.share:.0%} of {one.easy:,} queries"
        for one in failures
    ]
    message = (
        f"Chance-level ranks on queries that are easy for all other models: {'; '.join(evidence)}; other relations: "
        f"{failures[0].elsewhere:.0%}. Look for ranks that are random or belong to other queries."
    )
    rows = sum(int(cells.size[one.cell]) for one in failures) * len(view.runs[name])
    return Finding((name,), _KIND, message, Severity.warning, rows)


def _against(skills: Skills, model: int, queries: Flags, what: str) -> str:
    values = skills.reciprocal_rank[:, queries].mean(axis=1)
    others = float(np.median(np.delete(values, model)))
    return f"{what}: MRR {values[model]:.3f}, median of the others {others:.3f}"


def _side(tail: bool) -> str:
    return "tail" if tail else "head"


def _lopsided(skills: Skills) -> Iterator[Finding]:
    """Two models give no majority, but one of them may have very different skill on its two sides."""
    tail = skills.predicts_tail
    if min(tail.sum(), (~tail).sum()) < _FEWEST_QUERIES:
        return
    gaps = skills.scales[:, :, tail].mean(axis=2) - skills.scales[:, :, ~tail].mean(axis=2)
    apart_by = gaps[:, 0] - gaps[:, 1]
    if np.any(np.abs(apart_by) < _SIDE) or apart_by.prod() < 0:
        return
    odd = int(np.abs(gaps[0]).argmax())
    sides = [_against(skills, odd, tail == side, f"{_side(side)} side") for side in (False, True)]
    message = (
        f"The two sides differ far more than those of {skills.models[1 - odd]} ({'; '.join(sides)}). "
        "Add a third model to find out which of the two is wrong."
    )
    yield Finding((skills.models[odd],), _KIND, message, Severity.note)
