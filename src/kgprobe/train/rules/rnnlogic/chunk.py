"""Some training queries as a model scores them: their pairs, and the pairs as they are without the fact asked for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kgprobe.models.noise import Noise
from kgprobe.models.rnnlogic.model import RNNLogic
from kgprobe.train.rules.rnnlogic.queries import TrainingQueries
from kgprobe.train.rules.rnnlogic.ragged import begins


@dataclass(frozen=True, eq=False)
class Paths:
    """Rules and numbers of their paths, for one pair after the other.

    Attributes:
        starts: Where the rules of each pair begin: int64 [pairs].
        rule: Index among all rules: int32 [n].
        count: int16 [n].
    """

    starts: Tensor
    rule: Tensor
    count: Tensor

    @property
    def sizes(self) -> Tensor:
        """How many rules each pair has."""
        return torch.diff(self.starts, append=self.starts.new_tensor([len(self.rule)]))


class Chunk:
    """Some of the queries.

    Attributes:
        relation: Of each query.
        query: The query of each pair.
        candidate: The candidate of each pair.
        answer: Whether that is a training answer.
        paths: The rules that lead there.
        fact_query, target: The query and the answer of each training fact.
        fact_pair: The pair of each fact, or -1.
        asked: Whether the fact is asked for.
        change_fact, change_pair: Pairs that lose paths without a fact.
        gone: Whether no path is left.
        changed: The rules that lose paths, with their numbers of all paths.
        left: Paths of these rules that stay.
    """

    def __init__(self, queries: TrainingQueries, chosen: Tensor) -> None:
        self.relation = queries.relation[chosen]
        first_rule = queries.first_rule[self.relation].to(torch.int32)

        self.query, pairs = queries.pairs.rows(chosen)
        self.candidate, self.answer = pairs["candidate"].long(), pairs["answer"]
        row, entries = queries.entries.rows(chosen)
        starts = begins(pairs["rules"].long())
        self.paths = Paths(starts, entries["rule"] + first_rule[row], entries["count"])

        first_pair = begins(queries.pairs.sizes[chosen])
        self.fact_query, facts = queries.facts.rows(chosen)
        self.target, self.asked = facts["target"].long(), facts["asked"]
        self.fact_pair = torch.where(facts["pair"] < 0, -1, facts["pair"] + first_pair[self.fact_query])

        first_fact = begins(queries.facts.sizes[chosen])
        row, changes = queries.changes.rows(chosen)
        self.change_fact = changes["fact"] + first_fact[row]
        self.change_pair = changes["pair"] + first_pair[row]
        self.gone = changes["gone"]
        row, changed = queries.changed.rows(chosen)
        starts = begins(changes["rules"].long())
        self.changed = Paths(starts, changed["rule"] + first_rule[row], changed["count"])
        self.left = changed["left"]

    @property
    def of_target(self) -> Tensor:
        """Which changes are of the target of their fact."""
        return self.candidate[self.change_pair] == self.target[self.change_fact]


@dataclass(frozen=True, eq=False)
class Scored:
    """What the rules add to the scores of a chunk.

    Attributes:
        pair: For each pair: float32 [pairs].
        changed: For each changed pair, 0 where no path is left: float32 [changes].
    """

    pair: Tensor
    changed: Tensor


def scored(model: RNNLogic, chunk: Chunk, noise: Noise | None = None) -> Scored:
    """What the rules add to the scores; with noise, a share of what they say is left out as the options ask."""
    share = model.options.dropout
    evidence = model.evidence(chunk.paths.rule, model.weigh(chunk.paths.count), chunk.paths.starts)
    less = model.weigh(chunk.left) - model.weigh(chunk.changed.count)
    changed = evidence[chunk.change_pair] + model.evidence(chunk.changed.rule, less, chunk.changed.starts)
    if noise is not None and share > 0:
        kept = noise.kept(tuple(evidence.shape), share)[0] / (1 - share)
        evidence, changed = evidence * kept, changed * kept[chunk.change_pair]
    relation = chunk.relation[chunk.query]
    both = model.judged(torch.cat([evidence, changed]), torch.cat([relation, relation[chunk.change_pair]]))
    pair, changed = torch.split(both, [len(evidence), len(changed)])
    return Scored(pair, torch.where(chunk.gone, 0, changed))
