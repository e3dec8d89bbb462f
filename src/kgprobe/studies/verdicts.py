"""Verdicts on claims: each claim of a study is tested against query and seed noise, corrected over all claims."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import numpy as np

from kgprobe.comparison.lineup import Flag, Lineup
from kgprobe.comparison.pair_tests import holm
from kgprobe.openworld.bench_points import Points
from kgprobe.studies.claim_kinds import Claim, Evidences, RankClaim
from kgprobe.studies.claim_logic import NEVER, THE_METHOD, THESE_RUNS, PValues, Statement, needed_sample
from kgprobe.studies.evidence import Evidence
from kgprobe.studies.fact_claims import HasProperties, KeepsOrder, Theory


class Answer(StrEnum):
    """The answer to a claim."""

    method = "holds for the method"
    runs = "holds for these runs only"
    proved = "holds"
    undecided = "undecided"
    contradicted = "contradicted"
    contradicted_runs = "contradicted for these runs only"
    untrusted = "cannot be trusted"
    unchecked = "cannot be checked"


@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim.

    Attributes:
        claim: The claim.
        source: The ranks that it was tested on, such as "published".
        answer: The answer.
        observed: Whether the claim is true of the given numbers, whatever the noise; None where it was not checked.
        numbers: The observed numbers, in words.
        reason: Why the answer is not simply that the claim holds.
        p: P-value of the answer for the method, corrected over all claims; None without several training runs.
        p_runs: The same for these training runs; None where models are the sample.
        needed: What would decide an undecided claim.
        flags: What the audit has against models of the claim.
        with_flagged: The answer with these models, where the answer is that it cannot be trusted.
        without_flagged: The answer without them.
    """

    claim: Claim
    source: str
    answer: Answer
    observed: bool | None = None
    numbers: tuple[str, ...] = ()
    reason: str | None = None
    p: float | None = None
    p_runs: float | None = None
    needed: str | None = None
    flags: tuple[Flag, ...] = ()
    with_flagged: Answer | None = None
    without_flagged: Answer | None = None

    def to_row(self) -> dict[str, Any]:
        """A flat row."""
        return {
            "claim": self.claim.name,
            "section": self.claim.section,
            "kind": self.claim.kind,
            "statement": self.claim.statement,
            "source": self.source,
            "verdict": str(self.answer),
            "observed": self.observed,
            "p": self.p,
            "p_runs": self.p_runs,
            "needed": self.needed,
            "reason": self.reason,
            "with_flagged": None if self.with_flagged is None else str(self.with_flagged),
            "without_flagged": None if self.without_flagged is None else str(self.without_flagged),
            "objections": "; ".join(f"{flag.model}: {flag.text}" for flag in self.flags) or None,
            "numbers": "; ".join(self.numbers) or None,
        }


OUT_OF_MEMORY = "out of memory"
"""How the reason begins where a model has no ranks because its training does not fit into memory."""


@dataclass(frozen=True)
class SourceRanks:
    """The ranks of one source.

    Attributes:
        name: Its name, such as "published".
        lineups: The audited models of every graph that it has ranks of.
        missing: Why graphs or models are missing: by graph, or by graph and model.
        worlds: The open-world points, by missing rate.
    """

    name: str
    lineups: Mapping[str, Lineup]
    missing: Mapping[tuple[str, str | None], str] = field(default_factory=dict)
    worlds: Mapping[float, Points] = field(default_factory=dict)

    def flagged(self, claim: RankClaim) -> tuple[Flag, ...]:
        """The errors of the audit about models that a claim is about."""
        found: dict[str, Flag] = {}
        for lineup in (self.lineups[graph] for graph in self.usable(claim)):
            for model in lineup.flagged:
                if claim.about_all_models or model in claim.models:
                    found.setdefault(model, lineup.flags[model])
        return tuple(found.values())

    def usable(self, claim: RankClaim) -> list[str]:
        """The graphs that a claim can be tested on."""
        return [graph for graph in claim.graphs if not self._problems(claim, graph)]

    def unavailable(self, claim: RankClaim) -> str | None:
        """Why a claim cannot be checked with these ranks; None where it can.

        A claim about several graphs can be checked where some of them are usable.
        """
        if claim.about_several_graphs and self.usable(claim):
            return None
        lost = dict.fromkeys(problem for graph in claim.graphs for problem in self._problems(claim, graph))
        return "; ".join(lost) or None

    def _problems(self, claim: RankClaim, graph: str) -> list[str]:
        """Why a claim cannot be tested on a graph.

        A claim about all models needs all of them, but for those that ran out of memory: they have no place.
        """
        if graph not in self.lineups:
            return [self.missing.get((graph, None), f"no ranks of {graph}")]
        lineup = self.lineups[graph]
        absent = [model for model in claim.models if model not in lineup.models]
        lost = [self.missing.get((graph, model), f"no ranks of {model} on {graph}") for model in absent]
        if claim.about_all_models:
            reasons = [
                reason for (where, model), reason in self.missing.items() if where == graph and model is not None
            ]
            lost += [reason for reason in reasons if not reason.startswith(OUT_OF_MEMORY)]
        if len(lineup.models) < 2:
            lost.append(f"only one model on {graph}")
        if claim.needs_popularity and not _popular(lineup):
            lost.append(f"the popularity of the targets of {graph} is not known")
        return lost


def _popular(lineup: Lineup) -> bool:
    """Whether the popularity of every target is known."""
    return not any(np.isnan(lineup.first.numbers(name)).any() for name in ("entity_popularity", "relation_popularity"))


def judge(claims: Sequence[Claim], source: SourceRanks, *, level: float = 0.95) -> list[Verdict]:
    """The verdict on every claim, from the ranks of one source.

    P-values are corrected by Holm over all claims that are tested, for the method and for these runs separately. A
    claim that the audit objects to is tested with the models that it objects to and without them.

    Args:
        claims: The claims.
        source: The ranks.
        level: The probability that none of the decided claims is decided wrongly.
    """
    evidences = {graph: Evidence(lineup) for graph, lineup in source.lineups.items()}
    tested: dict[str, _Tested] = {}
    verdicts: dict[str, Verdict] = {}
    for claim in claims:
        if isinstance(claim, RankClaim):
            if reason := source.unavailable(claim):
                verdicts[claim.name] = Verdict(claim, source.name, Answer.unchecked, reason=reason)
            else:
                own = {graph: evidences[graph] for graph in source.usable(claim)}
                tested[claim.name] = _Tested(claim, claim.stated(own), tuple(claim.numbers(own)))
        elif isinstance(claim, KeepsOrder):
            points = source.worlds.get(claim.missing)
            if points is None:
                reason = f"no ranks in an open and a closed world at missing rate {claim.missing:g}"
                verdicts[claim.name] = Verdict(claim, source.name, Answer.unchecked, reason=reason)
            else:
                statement = claim.stated(points)
                tested[claim.name] = _Tested(claim, statement, (statement.text,))
        elif isinstance(claim, HasProperties | Theory):
            proof = claim.proof()
            answer = Answer.proved if proof.holds else Answer.contradicted
            verdicts[claim.name] = Verdict(claim, source.name, answer, proof.holds, reason=proof.reason)
    verdicts |= _judged(tested, source.name, level)
    rank_claims = [one.claim for one in tested.values() if isinstance(one.claim, RankClaim)]
    objected = {claim.name: source.flagged(claim) for claim in rank_claims}
    others = _without(rank_claims, source, evidences, level)
    for name, flags in objected.items():
        if flags:
            verdicts[name] = replace(
                verdicts[name],
                answer=Answer.untrusted,
                reason="; ".join(f"`kgprobe check` objects to {flag.model}: {flag.reasons[0]}" for flag in flags),
                flags=flags,
                with_flagged=verdicts[name].answer,
                without_flagged=others.get(name, Answer.unchecked),
            )
    return [verdicts[claim.name] for claim in claims]


def _without(claims: Sequence[RankClaim], source: SourceRanks, evidences: Evidences, level: float) -> dict[str, Answer]:
    """The answers without the models that the audit objects to, where there are any."""
    if not any(lineup.flagged for lineup in source.lineups.values()):
        return {}
    left = {graph: _kept(lineup) for graph, lineup in source.lineups.items()}
    reduced = {graph: Evidence(lineup) for graph, lineup in left.items() if len(lineup.models) > 1}
    tested = {}
    for claim in claims:
        excluded = [flag.model for flag in source.flagged(claim)]
        there = source.usable(claim)
        other = claim.without(excluded, {graph: evidences[graph] for graph in there})
        if other is not None and all(graph in reduced for graph in there):
            own = {graph: reduced[graph] for graph in there}
            tested[claim.name] = _Tested(other, other.stated(own), ())
    return {name: verdict.answer for name, verdict in _judged(tested, source.name, level).items()}


def _kept(lineup: Lineup) -> Lineup:
    """The models without errors of the audit."""
    return replace(lineup, runs={model: own for model, own in lineup.runs.items() if model not in lineup.flagged})


@dataclass(frozen=True)
class _Tested:
    """A claim that is tested by p-values."""

    claim: Claim
    statement: Statement
    numbers: tuple[str, ...]


def _judged(tested: Mapping[str, _Tested], source: str, level: float) -> dict[str, Verdict]:
    """The verdicts on all tested claims, corrected over them."""
    of_runs = {name: one for name, one in tested.items() if not one.statement.over_models}
    fixed = _Corrected({name: one.statement.p(THESE_RUNS) for name, one in of_runs.items()}, level)
    several = {name: one for name, one in tested.items() if one.statement.has_runs}
    random = _Corrected({name: one.statement.p(THE_METHOD) for name, one in several.items()}, level)
    return {name: _verdict(name, one, source, fixed, random) for name, one in tested.items()}


class _Corrected:
    """P-values of several claims in both directions, corrected by Holm.

    A claim is tested in both directions, so the smaller of its two p-values counts twice.
    """

    def __init__(self, p: Mapping[str, PValues], level: float) -> None:
        self._p = p
        self._alpha = float(round(1 - level, 12))
        two_sided = [min(2 * min(one), 1.0) for one in p.values()]
        self.adjusted = dict(zip(p, holm(two_sided).tolist(), strict=True))

    def decided(self, name: str) -> bool | None:
        """Whether the claim is true; None where that is not decided."""
        if name not in self._p or self.adjusted[name] > self._alpha:
            return None
        return self._p[name].supports < self._p[name].opposes

    @property
    def threshold(self) -> float:
        """The one-sided p-value that would decide the next claim."""
        left = [name for name in self.adjusted if self.decided(name) is None]
        return self._alpha / 2 / max(len(left), 1)


def _verdict(name: str, one: _Tested, source: str, fixed: _Corrected, random: _Corrected) -> Verdict:
    about_method, about_runs = random.decided(name), fixed.decided(name)
    remarks = one.statement.remarks
    reason: str | None = None
    needed: str | None = None
    if about_method is not None:
        answer = Answer.method if about_method else Answer.contradicted
    elif about_runs is not None:
        answer = Answer.runs if about_runs else Answer.contradicted_runs
        reason = _only_runs(one.statement, about_runs)
        if one.statement.has_runs:
            needed = _needed(one.statement, random.threshold, method=True)
    else:
        answer = Answer.undecided
        reason = "; ".join(remarks) or None
        needed = _needed(one.statement, (random if one.statement.has_runs else fixed).threshold, one.statement.has_runs)
    return Verdict(
        one.claim,
        source,
        answer,
        one.statement.observed,
        one.numbers,
        reason,
        random.adjusted.get(name),
        fixed.adjusted.get(name),
        needed,
    )


def _only_runs(statement: Statement, holds: bool) -> str:
    if not statement.has_runs:
        return "a model has a single training run, so nothing can be said about the method"
    verb = "holds" if holds else "is contradicted"
    return f"the claim {verb} for these training runs, but other runs of the same methods may differ"


def _needed(statement: Statement, threshold: float, method: bool) -> str:
    """What would decide a statement, in words."""
    if statement.over_models:
        models = needed_sample(statement, threshold, method=False).queries
        return f"about {models:.1f} times as many models would decide it{_IF_TRUE}" if math.isfinite(models) else NEVER
    found = needed_sample(statement, threshold, method=method)
    if found.runs is not None and math.isfinite(found.runs):
        runs = found.runs * statement.fewest_runs
        return f"about {runs:.0f} training runs of each model would decide it{_IF_TRUE}"
    if math.isinf(found.queries):
        return f"{NEVER}{_IF_TRUE}"
    more = " and many more training runs" if method else ""
    return f"about {found.queries:.1f} times as many queries{more} would decide it{_IF_TRUE}"


_IF_TRUE = ", if the observed differences are the true ones"


def summary(verdicts: Iterable[Verdict]) -> dict[str, int]:
    """How many claims have each answer, in the order of `Answer`."""
    answers = [verdict.answer for verdict in verdicts]
    return {str(answer): answers.count(answer) for answer in Answer if answer in answers}
