"""Why candidates are where they are: their ranks, what their scores are made of, and the rules that lead to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.sorted_keys import Ints, find, pair_keys
from kgprobe.models.rules.answers import Answer, Answers, Reason
from kgprobe.models.rules.explain import Explanation, RuleScorer
from kgprobe.models.rules.question import Question
from kgprobe.models.rules.rule import NO_ATOM
from kgprobe.models.rules.text import path_facts, rule_text
from kgprobe.predict.arrays import as_array


class Explainer:
    """Says why a model of rules answers as it does.

    Args:
        scorer: The model.
        graph: The graph that it has learned; all its splits are known answers, which are no candidates.
    """

    def __init__(self, scorer: RuleScorer, graph: KnowledgeGraph) -> None:
        self.scorer, self.graph, self.rules, self.weights = scorer, graph, scorer.rules, scorer.weights
        self._known = {split: graph.known_answers(split) for split in graph.splits}

    def answers(
        self,
        question: Question,
        candidates: Sequence[int] = (),
        *,
        top: int = 5,
        rules: int = 5,
        new: bool = False,
    ) -> Answers:
        """The best answers, and those that are named, with their reasons.

        Args:
            question: What is asked.
            candidates: Answers that are wanted wherever they are.
            top: How many of the best.
            rules: How many rules of each, at most.
            new: Whether the best are to be looked for among answers that are not known.
        """
        scores = self._scores(question)
        known = self._known_answers(question)
        allowed = scores.copy()
        if new:
            allowed[np.concatenate([np.empty(0, np.int64), *known.values()])] = -np.inf
        best = np.argsort(-allowed, kind="stable")[: max(top, 0)]
        wanted = np.union1d(best[allowed[best] > -np.inf], np.asarray(candidates, dtype=np.int64))
        ordered = wanted[np.argsort(-scores[wanted], kind="stable")]
        reasons = self.scorer.explain(question.side, question.given, question.relation, ordered)
        return Answers(
            self._text(question), tuple(self._answer(why, question, scores, known, rules) for why in reasons)
        )

    def _answer(
        self,
        why: Explanation,
        question: Question,
        scores: NDArray[Any],
        known: Mapping[str, Ints],
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
            name=self.graph.entity_label([why.candidate])[0],
            rank=1 + int((scores[rivals] > scores[why.candidate]).sum()) + ties / 2,
            ties=ties,
            candidates=1 + int(rivals.sum()),
            score=why.score,
            parts=why.parts,
            known=tuple(split for split, own in known.items() if why.candidate in own),
            reasons=tuple(self._reason(why, place, question.given) for place in shown),
            more=len(why.rule) - len(shown),
        )

    def _reason(self, why: Explanation, place: int, given: int) -> Reason:
        rule = int(why.rule[place])
        body = [int(atom) for atom in self.rules.body[rule] if atom != NO_ATOM]
        path = self.scorer.grounder.witness(body, given, why.candidate)
        return Reason(
            rule=rule_text(self.rules, rule, self._relation),
            paths=int(why.paths[place]),
            gain=float(why.gain[place]),
            alone=float(self.weights[rule]),
            path="" if path is None else self._facts(path_facts(self.rules, rule, path)),
        )

    def _facts(self, facts: Sequence[tuple[int, int, int]]) -> str:
        """Facts as they are read; those that no training fact states are marked, for a model may hold others true."""
        head, relation, tail = np.array(facts).T
        tails = self._known["train"].tails
        stated = tails.contains(pair_keys(head, relation, self.graph.num_relations), tail)
        names = zip(self.graph.entity_label(head), self.graph.entity_label(tail), strict=True)
        atoms = [f"{own}({x}, {y})" for own, (x, y) in zip(self.graph.relation_label(relation), names, strict=True)]
        return ", ".join(atom if sure else f"{atom} (inferred)" for atom, sure in zip(atoms, stated, strict=True))

    def _scores(self, question: Question) -> NDArray[Any]:
        given, relation = np.array([question.given]), np.array([question.relation])
        scores: NDArray[Any] = as_array(self.scorer.score(question.side, given, relation))[0]
        return scores

    def _known_answers(self, question: Question) -> dict[str, Ints]:
        """The known answers by split."""
        answers = {}
        for split, known in self._known.items():
            groups = known.tails if question.side == "tail" else known.heads
            key = pair_keys(np.array([question.given]), np.array([question.relation]), known.num_relations)
            group = int(find(groups.keys, key)[0])
            answers[split] = (
                groups.values[slice(*groups.offsets[group : group + 2])] if group >= 0 else groups.values[:0]
            )
        return answers

    def _text(self, question: Question) -> str:
        given = self.graph.entity_label([question.given])[0]
        asked = f"{given}, ?" if question.side == "tail" else f"?, {given}"
        return f"{self._relation(question.relation)}({asked})"

    def _relation(self, relation: int) -> str:
        return self.graph.relation_label([relation])[0]
