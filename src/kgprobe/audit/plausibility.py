"""Are there sides or relations whose ranks are implausible beside those of the other models?

Ranks that are partly random or of other queries look like this, though their mean may be that of a modest model: a
model that is modest in earnest seldom places an answer as chance does that all others place among the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kgprobe.arrays import Flags
from kgprobe.audit.model_skill import Skills, Stranger, apart, outliers, skills_of, strangers
from kgprobe.audit.view import Finding, Severity, View

_FEWEST_MODELS = 3

_FEWEST_EASY = 100

_EASY = 0.7

"""The least skill of all other models: a rank of 25 among 40,000 candidates, of 4 among 130."""

_CHANCE = 0.3

"""Skill below this is that of chance: a rank above 1,700 among 40,000 candidates, above 31 among 130."""

_OFTEN = 0.35

"""This share of the easy queries of a cell is not failed in earnest; sound models stay below 0.25."""

_SELDOM = 0.04

"""The most that a model fails at in other relations. One that fails more often has other limits than the others."""


@dataclass(frozen=True)
class Blunders:
    """A relation and side that a model fails at as chance does.

    Attributes:
        model: Which of the models.
        cell: Which of the cells.
        easy: How many of its queries are easy to all other models.
        share: The share of these at which the model fails.
        elsewhere: The same share in all other relations.
    """

    model: int
    cell: int
    easy: int
    share: float
    elsewhere: float


def blunders(skills: Skills) -> Iterator[Blunders]:
    """Where models fail at easy queries, and only there.

    Example:
        >>> scale = np.full((3, 2000), 0.9)
        >>> scale[2, :200] = np.where(np.arange(200) % 2, 0.9, 0.1)
        >>> relation, side = np.arange(2000) // 200, np.ones(2000, bool)
        >>> skills = Skills(("A", "B", "C"), np.stack([scale, scale]), scale, relation, side)
        >>> [(found.model, found.cell, found.share, found.elsewhere) for found in blunders(skills)]
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
                yield Blunders(model, int(cell), int(many[cell]), float(share[cell]), elsewhere)


_KIND = "implausible"

_FEWEST_QUERIES = 30

_CELL = (0.25, 0.4)

"""The least skill, logarithmic and reciprocal, by which a model must stand apart in a relation on one side."""

_SIDE = (0.2, 0.25)

"""The same for a whole side, which averages out what models differ in."""

_STRENGTH = 3.4

"""How many times the usual distance. Models that are sound stay below, on every graph that was tried."""

_BESIDE = 2.0

"""The same for further relations of a model and side that stands apart already."""

_MATTERS = 0.03

"""Of this share of a side's queries, a fault can move the MRR of the side by as much: enough for a warning. Models that
are sound may fail altogether at a smaller relation, for which they have no room."""

_NAMED = 5


def check_plausibility(view: View) -> Iterator[Finding]:
    """Sides of a model on which it is too good or too bad beside the others, as a whole or in some relations.

    Example:
        >>> from kgprobe.audit.view import prepare
        >>> from kgprobe.ranks import Ranks
        >>> n = np.arange(400)
        >>> def model(**columns):
        ...     side = np.where(n % 2, "tail", "head")
        ...     return Ranks.from_columns(
        ...         head=n, relation=n // 2 % 4, tail=n + 400, side=side, candidates=n * 0 + 800, **columns
        ...     )
        >>> sound = {name: model(rank=2 + (n * step) % 5) for name, step in (("A", 3), ("B", 7), ("C", 11))}
        >>> broken = model(rank=np.where(n % 2, 300 + n % 7, 2 + n % 5))
        >>> [(found.models, found.kind) for found in check_plausibility(prepare({**sound, "D": broken}, None))]
        [(('D',), 'implausible')]
    """
    skills = skills_of(view)
    if len(skills.models) == 2:
        yield from _lopsided(view, skills)
    strange = list(strangers(skills))
    yield from (_strange(view, skills, stranger) for stranger in strange)
    for model in sorted({stranger.model for stranger in strange}, reverse=True):
        skills = skills.without(model)
    while len(skills.models) >= _FEWEST_MODELS and len(skills.relation):
        found = _standing_apart(skills)
        if not found:
            break
        # Whoever is found at fault is no witness against the others.
        worst = max({place.model for place in found}, key=lambda model: _extent(skills, found, model))
        own = [place for place in found if place.model == worst]
        # A whole side at fault says nothing of what the model can do, by which its other side was judged.
        yield from (_finding(view, skills, place) for place in [p for p in own if p.whole] or own)
        skills = skills.without(worst)
    failures = list(blunders(skills))
    for model in sorted({failure.model for failure in failures}):
        yield _failing(view, skills, [failure for failure in failures if failure.model == model])


@dataclass(frozen=True)
class _Place:
    """A side on which a model stands apart, as a whole or in some cells."""

    model: int
    tail: bool
    cells: Flags
    clear: Flags
    whole: bool

    def queries(self, skills: Skills) -> int:
        """How many queries are concerned."""
        return int((skills.predicts_tail == self.tail).sum() if self.whole else skills.cells.size[self.cells].sum())

    def matters(self, skills: Skills) -> bool:
        """Whether enough queries are concerned beyond doubt."""
        on_side = (skills.predicts_tail == self.tail).sum()
        return self.whole or bool(skills.cells.size[self.clear].sum() >= _MATTERS * on_side)


def _standing_apart(skills: Skills) -> list[_Place]:
    cells = skills.cells
    in_cells, on_sides = zip(*(outliers(scale, cells) for scale in skills.scales), strict=True)
    many = cells.size >= _FEWEST_QUERIES
    clear, likely = (apart(in_cells, _CELL, strength) & many for strength in (_STRENGTH, _BESIDE))
    whole = apart(on_sides, _SIDE, _STRENGTH) & (np.bincount(skills.predicts_tail, minlength=2) >= _FEWEST_QUERIES)
    return [
        _Place(model, tail, likely[model] & here, clear[model] & here, bool(whole[model, int(tail)]))
        for model in range(len(skills.models))
        for tail in (False, True)
        if (clear[model] & (here := cells.predicts_tail == tail)).any() or whole[model, int(tail)]
    ]


def _extent(skills: Skills, found: list[_Place], model: int) -> int:
    return sum(place.queries(skills) for place in found if place.model == model)


def _finding(view: View, skills: Skills, place: _Place) -> Finding:
    model, tail, cells = place.model, place.tail, place.cells
    name, grouped = skills.models[model], skills.cells
    on_side = skills.predicts_tail == tail
    total, of_cells = int(on_side.sum()), int(grouped.size[cells].sum())
    concerned = place.queries(skills)
    relations = int((grouped.predicts_tail == tail).sum())
    largest = sorted(np.flatnonzero(cells), key=lambda cell: -grouped.size[cell])
    evidence = [_against(skills, model, grouped.which == c, _name(view, grouped.relation[c])) for c in largest[:_NAMED]]
    evidence += [f"{len(largest) - _NAMED} more relations"] if len(largest) > _NAMED else []
    evidence.append(_against(skills, model, on_side, f"all of the {_side(tail)} side"))
    if (~on_side).any():
        evidence.append(_against(skills, model, ~on_side, f"the {_side(not tail)} side"))
    where = f"in {len(largest)} of {relations} relations on the {_side(tail)} side ({of_cells:,} of {total:,} queries)"
    return Finding(
        (name,),
        _KIND,
        f"{f'on the {_side(tail)} side' if place.whole else where} the ranks are implausible beside the other models': "
        f"{'; '.join(evidence)}; look for a fault in how this side is scored, looked up or filtered",
        Severity.warning if place.matters(skills) else Severity.note,
        concerned * len(view.runs[name]),
    )


def _strange(view: View, skills: Skills, stranger: Stranger) -> Finding:
    name = skills.models[stranger.model]
    where = "" if stranger.side == "both" else f"on the {stranger.side} side "
    return Finding(
        (name,),
        _KIND,
        f"{where}the ranks have nothing to do with those of the other models, though they are as good: within "
        f"relations, their correlation is {stranger.own:.2f} at most, and {stranger.others:.2f} between the others; "
        "look for ranks that are attached to other queries than their own, such as rows in another order",
        Severity.warning,
        stranger.queries * len(view.runs[name]),
    )


def _failing(view: View, skills: Skills, failures: list[Blunders]) -> Finding:
    name, cells = skills.models[failures[0].model], skills.cells
    evidence = [
        f"{_name(view, cells.relation[found.cell])} on the {_side(bool(cells.predicts_tail[found.cell]))} side: "
        f"{found.share:.0%} of {found.easy:,} queries"
        for found in failures
    ]
    return Finding(
        (name,),
        _KIND,
        f"ranks as by chance at queries that are easy for all other models: {'; '.join(evidence)}; in other relations: "
        f"{failures[0].elsewhere:.0%}; look for ranks there that are random or of other queries",
        Severity.warning,
        sum(int(cells.size[found.cell]) for found in failures) * len(view.runs[name]),
    )


def _against(skills: Skills, model: int, queries: Flags, what: str) -> str:
    values = skills.reciprocal_rank[:, queries].mean(axis=1)
    others = float(np.median(np.delete(values, model)))
    return f"{what}: MRR {values[model]:.3f}, the others' median {others:.3f}"


def _name(view: View, relation: int) -> str:
    return view.relation_name(int(relation))


def _side(tail: bool) -> str:
    return "tail" if tail else "head"


def _lopsided(view: View, skills: Skills) -> Iterator[Finding]:
    """Of two models nobody can say which is right, but one may be as good as the other on one side alone."""
    tail = skills.predicts_tail
    if min(tail.sum(), (~tail).sum()) < _FEWEST_QUERIES:
        return
    gaps = skills.scales[:, :, tail].mean(axis=2) - skills.scales[:, :, ~tail].mean(axis=2)
    apart_by = gaps[:, 0] - gaps[:, 1]
    if np.any(np.abs(apart_by) < _SIDE) or apart_by.prod() < 0:
        return
    odd = int(np.abs(gaps[0]).argmax())
    sides = [_against(skills, odd, tail == side, f"{_side(side)} side") for side in (False, True)]
    yield Finding(
        (skills.models[odd],),
        _KIND,
        f"its two sides differ far more than those of {skills.models[1 - odd]} ({'; '.join(sides)}); "
        "a third model would tell which of the two is at fault",
        Severity.note,
        None,
    )
