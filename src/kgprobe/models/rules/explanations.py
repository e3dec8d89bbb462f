"""Explain the predictions of rule-based models: rules by relation, and the rules behind the scores of candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from textwrap import indent
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts, Floats, find, pair_keys
from kgprobe.graph import KnowledgeGraph
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.rule_statistics import Measure
from kgprobe.models.rules.rule_table import NO_ATOM, Rules, path_triples, rule_text
from kgprobe.models.rules.written_queries import WrittenQuery
from kgprobe.predict.scorers import Side, as_array
from kgprobe.tables import Table


@dataclass(frozen=True, eq=False)
class Explanation:
    """The parts of the score of a candidate.

    Attributes:
        candidate: The entity.
        score: Its score.
        parts: The summands of the score by name: "rules", "bias", "embedding" and the like.
        rule: Indices of the rules of the model that reach the candidate, by decreasing gain.
        paths: Number of paths of each of them.
        gain: By how much the score would fall without each of them.
    """

    candidate: int
    score: float
    parts: Mapping[str, float]
    rule: AnyInts
    paths: NDArray[np.float64]
    gain: NDArray[np.float64]


@runtime_checkable
class RuleScorer(Protocol):
    """A `Scorer` whose scores come from rules."""

    @property
    def rules(self) -> Rules:
        """The rules; a head that is a relation of the graph predicts tails, a reverse relation heads."""

    @property
    def weights(self) -> NDArray[np.float64]:
        """The change in score by a single path of each rule alone."""

    @property
    def grounder(self) -> Grounder:
        """Grounds the rules in all triples that the model takes as true."""

    def score(self, side: Side, given: AnyInts, relation: AnyInts) -> Any:
        """Scores [queries, entities] of all entities as candidates on the ``side`` of (given[i], relation[i])."""

    def explain(self, side: Side, given: int, relation: int, candidates: AnyInts) -> list[Explanation]:
        """Explain the scores of candidates on the ``side`` of (given, relation)."""


# What rules can be sorted by: the larger weight of both sides, or a statistic of the training triples.
SORTS: Mapping[str, Callable[[Rules, Floats], NDArray[np.float64]]] = {
    "weight": lambda rules, weight: np.fmax(weight[0], weight[1]),
    "confidence": lambda rules, weight: rules.confidence,
    "support": lambda rules, weight: rules.support,
}

_STARTS = 1_000  # sample size for the statistics of rules that were not mined


def rule_rows(
    scorer: RuleScorer,
    graph: KnowledgeGraph,
    *,
    relations: Sequence[int] | None = None,
    sort: str = "weight",
    top: int = 20,
) -> list[dict[str, Any]]:
    """The first rules of each relation as rows of a table.

    A rule that predicts tails and its reverse that predicts heads make one row, with a weight for each side.

    Args:
        scorer: The model.
        graph: The graph, for names.
        relations: The relations; None for all.
        sort: What rules are sorted by, in decreasing order; see `SORTS`.
        top: Number of rules of each relation.
    """
    rules, weight = _by_side(scorer.rules, scorer.weights)
    heads = np.arange(graph.num_relations) if relations is None else np.asarray(relations)
    chosen = np.flatnonzero(np.isin(rules.head, heads))
    rules, weight = rules.at(chosen), weight[:, chosen]
    measure = Measure(scorer.grounder.adjacency, _STARTS)
    if sort != "weight":
        rules = _measured(rules, measure)
    value = SORTS[sort](rules, weight)
    by_relation = (np.flatnonzero(rules.head == relation) for relation in heads)
    first = [own[np.argsort(-value[own], kind="stable")][:top] for own in by_relation]
    shown = np.concatenate([np.empty(0, np.int64), *first])
    rules, weight = _measured(rules.at(shown), measure), weight[:, shown]
    return [_row(rules, weight[:, i], i, graph) for i in range(len(rules))]


def _measured(rules: Rules, measure: Measure) -> Rules:
    """Add the statistics of rules that have none: those of a generator."""
    missing = rules.pairs == 0
    if not missing.any():
        return rules
    measured = measure.of(rules.at(missing))
    columns = {}
    for name in ("support", "pairs", "path_support", "paths"):
        columns[name] = getattr(rules, name).copy()
        columns[name][missing] = getattr(measured, name)
    return replace(rules, **columns)


def _by_side(rules: Rules, weights: NDArray[np.float64]) -> tuple[Rules, Floats]:
    """The distinct rules of the graph's relations, and their weights for tails and for heads [2, rules], or NaN."""
    for_heads = rules.head >= rules.relations
    flipped = rules.reversed()
    head = np.where(for_heads, flipped.head, rules.head)
    body = np.where(for_heads[:, None], flipped.body, rules.body)
    _, first, which = np.unique(np.column_stack([head, body]), axis=0, return_index=True, return_inverse=True)
    weight = np.full((2, len(first)), np.nan)
    weight[for_heads.astype(int), which.ravel()] = weights
    return replace(rules.at(first), head=head[first], body=body[first]), weight


def _row(rules: Rules, weight: Floats, i: int, graph: KnowledgeGraph) -> dict[str, Any]:
    tail, head = (None if np.isnan(own) else float(own) for own in weight)
    return {
        "relation": graph.relation_label([rules.head[i]])[0],
        **({} if graph.relation_names is None else {"relation_name": graph.relation_name([rules.head[i]])[0]}),
        "rule": rule_text(rules, i, lambda relation: graph.relation_name([relation])[0]),
        "predicts": "tail" if head is None else "head" if tail is None else "both",
        "tail weight": tail,
        "head weight": head,
        "confidence": float(rules.confidence[i]),
        "support": round(float(rules.support[i])),
    }


@dataclass(frozen=True)
class Reason:
    """A rule that reaches a candidate.

    Attributes:
        rule: The rule as text.
        paths: Number of its paths.
        gain: By how much the score would fall without it.
        alone: By how much one of its paths alone would raise a score.
        path: The triples of one of these paths.

    Example:
        >>> rule, path = "uncle(x, y) <- brother(x, z), parent(z, y)", "brother(Bob, Eve), parent(Eve, Ada)"
        >>> print(Reason(rule, paths=1, gain=2.5, alone=2.5, path=path))
        uncle(x, y) <- brother(x, z), parent(z, y)
          gain +2.5000, alone +2.5000, path: brother(Bob, Eve), parent(Eve, Ada)
    """

    rule: str
    paths: int
    gain: float
    alone: float
    path: str

    def __str__(self) -> str:
        paths = f"one of {self.paths:,} paths" if self.paths > 1 else "path"
        return f"{self.rule}\n  gain {self.gain:+.4f}, alone {self.alone:+.4f}, {paths}: {self.path}"


@dataclass(frozen=True, eq=False)
class Answer:
    """A candidate with its rank, its score and the rules behind it.

    Attributes:
        entity: The candidate.
        name: Its name, else its label, else its id.
        rank: Its filtered rank, as `kgprobe rank` computes it: the mean over ties.
        ties: Number of other candidates with the same score.
        candidates: Number of candidates, itself included.
        score: Its score.
        parts: The summands of the score by name.
        known: The splits in which it is a known answer.
        reasons: The rules with the largest gains.
        more: Number of other rules that reach it.
        label: Its label, if the graph has names for people.

    Example:
        >>> print(Answer(0, "Bob", 1.5, 1, 9, 0.25, {"rules": 0.0, "bias": 0.25}, ("train",), reasons=(), more=0))
        Bob: rank 1.5 of 9 (tied with 1 other), known from train
          score 0.2500 = rules 0.0000 + bias 0.2500
          no rule leads to it
    """

    entity: int
    name: str
    rank: float
    ties: int
    candidates: int
    score: float
    parts: Mapping[str, float]
    known: tuple[str, ...]
    reasons: tuple[Reason, ...]
    more: int
    label: str | None = None

    def __str__(self) -> str:
        tied = f" (tied with {self.ties:,} {'other' if self.ties == 1 else 'others'})" if self.ties else ""
        known = f", known from {' and '.join(self.known)}" if self.known else ""
        parts = " + ".join(f"{name} {value:.4f}" for name, value in self.parts.items())
        lines = [f"{self.name}: rank {self.rank:,g} of {self.candidates:,}{tied}{known}"]
        lines.append(f"  score {self.score:.4f}{f' = {parts}' if parts else ''}")
        lines += [indent(str(reason), "  ") for reason in self.reasons]
        others = " more" if self.reasons else ""
        if self.more:
            lines.append(f"  {self.more:,}{others} {'rule leads' if self.more == 1 else 'rules lead'} to it")
        return "\n".join(lines if self.reasons or self.more else [*lines, "  no rule leads to it"])


@dataclass(frozen=True, eq=False)
class Answers(Table):
    """Explained candidates of a query, by increasing rank.

    Attributes:
        question: The query as text, such as "parent(Ada, ?)".
        answers: The candidates.
    """

    question: str
    answers: tuple[Answer, ...]

    def __str__(self) -> str:
        return "\n\n".join([self.question, *map(str, self.answers)])

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each rule of each candidate, or one row for a candidate without rules."""
        return [row for answer in self.answers for row in self._rows(answer)]

    def _rows(self, answer: Answer) -> Iterator[dict[str, Any]]:
        own = {
            "query": self.question,
            "candidate": answer.name if answer.label is None else answer.label,
            **({} if answer.label is None else {"candidate_name": answer.name}),
            "known": " and ".join(answer.known),
            "rank": answer.rank,
            "ties": answer.ties,
            "candidates": answer.candidates,
            "score": answer.score,
            **{f"from {name}": value for name, value in answer.parts.items()},
        }
        for reason in answer.reasons:
            yield own | vars(reason)
        if not answer.reasons:
            yield own | dict.fromkeys(field.name for field in fields(Reason))

    def __repr__(self) -> str:
        count = len(self.answers)
        return f"Answers({self.question}, {count} candidate{'s' * (count != 1)})"

    def _shown_rows(self) -> list[dict[str, Any]]:
        kept = ("candidate", "rank", "score", "known", "rule", "gain", "path")
        return [{name: row[name] for name in kept} for row in self.to_rows()]


class Explainer:
    """Explains the predictions of a rule-based model.

    Args:
        scorer: The model.
        graph: The graph that it was trained on; known answers of all splits are filtered.
    """

    def __init__(self, scorer: RuleScorer, graph: KnowledgeGraph) -> None:
        self.scorer, self.graph, self.rules, self.weights = scorer, graph, scorer.rules, scorer.weights
        self._known = {split: graph.known_answers(split) for split in graph.splits}

    def answers(
        self,
        question: WrittenQuery,
        candidates: Sequence[int] = (),
        *,
        top: int = 5,
        rules: int = 5,
        new: bool = False,
    ) -> Answers:
        """Explain the best candidates of a query, and further candidates.

        Args:
            question: The query.
            candidates: Further candidates, of any rank.
            top: Number of the best candidates.
            rules: Maximum number of rules of each candidate.
            new: Whether the best candidates exclude known answers.
        """
        scores = self._scores(question)
        known = self._known_answers(question)
        allowed = scores.copy()
        if new:
            allowed[np.concatenate([np.empty(0, np.int64), *known.values()])] = -np.inf
        best = np.argsort(-allowed, kind="stable")[: max(top, 0)]
        chosen = np.union1d(best[allowed[best] > -np.inf], np.asarray(candidates, dtype=np.int64))
        ordered = chosen[np.argsort(-scores[chosen], kind="stable")]
        explained = self.scorer.explain(question.side, question.given, question.relation, ordered)
        answers = tuple(self._answer(why, question, scores, known, rules) for why in explained)
        return Answers(self._text(question), answers)

    def _answer(
        self,
        why: Explanation,
        question: WrittenQuery,
        scores: NDArray[Any],
        known: Mapping[str, AnyInts],
        rules: int,
    ) -> Answer:
        rivals = np.ones(len(scores), dtype=bool)
        for own in known.values():
            rivals[own] = False
        rivals[why.candidate] = False
        ties = int((scores[rivals] == scores[why.candidate]).sum())
        shown = range(min(rules, len(why.rule)))
        return Answer(
            entity=why.candidate,
            name=self.graph.entity_name([why.candidate])[0],
            rank=1 + int((scores[rivals] > scores[why.candidate]).sum()) + ties / 2,
            ties=ties,
            candidates=1 + int(rivals.sum()),
            score=why.score,
            parts=why.parts,
            known=tuple(split for split, own in known.items() if why.candidate in own),
            reasons=tuple(self._reason(why, index, question.given) for index in shown),
            more=len(why.rule) - len(shown),
            label=None if self.graph.entity_names is None else self.graph.entity_label([why.candidate])[0],
        )

    def _reason(self, why: Explanation, index: int, given: int) -> Reason:
        rule = int(why.rule[index])
        body = [int(atom) for atom in self.rules.body[rule] if atom != NO_ATOM]
        path = self.scorer.grounder.witness(body, given, why.candidate)
        return Reason(
            rule=rule_text(self.rules, rule, self._relation),
            paths=int(why.paths[index]),
            gain=float(why.gain[index]),
            alone=float(self.weights[rule]),
            path="" if path is None else self._triples(path_triples(self.rules, rule, path)),
        )

    def _triples(self, triples: Sequence[tuple[int, int, int]]) -> str:
        """Triples as text; those that are not training triples but inferred by the model are marked."""
        head, relation, tail = np.array(triples).T
        tails = self._known["train"].tails
        known = tails.contains(pair_keys(head, relation, self.graph.num_relations), tail)
        names = zip(self.graph.entity_name(head), self.graph.entity_name(tail), strict=True)
        atoms = [f"{own}({x}, {y})" for own, (x, y) in zip(self.graph.relation_name(relation), names, strict=True)]
        return ", ".join(atom if given else f"{atom} (inferred)" for atom, given in zip(atoms, known, strict=True))

    def _scores(self, question: WrittenQuery) -> NDArray[Any]:
        given, relation = np.array([question.given]), np.array([question.relation])
        scores: NDArray[Any] = as_array(self.scorer.score(question.side, given, relation))[0]
        return scores

    def _known_answers(self, question: WrittenQuery) -> dict[str, AnyInts]:
        answers = {}
        for split, known in self._known.items():
            groups = known.tails if question.side == "tail" else known.heads
            key = pair_keys(np.array([question.given]), np.array([question.relation]), known.num_relations)
            group = int(find(groups.keys, key)[0])
            answers[split] = groups.values[slice(*groups.offsets[group : group + 2]) if group >= 0 else slice(0)]
        return answers

    def _text(self, question: WrittenQuery) -> str:
        given = self.graph.entity_name([question.given])[0]
        asked = f"{given}, ?" if question.side == "tail" else f"?, {given}"
        return f"{self._relation(question.relation)}({asked})"

    def _relation(self, relation: int) -> str:
        return self.graph.relation_name([relation])[0]
