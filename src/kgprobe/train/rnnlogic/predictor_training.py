"""Training steps of the RNNLogic predictor: scores, losses and priors of rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.rnnlogic import RNNLogic
from kgprobe.models.rules.rule_table import Rules
from kgprobe.train.rnnlogic.grounded_queries import GroundedQueries, begins
from kgprobe.train.settings import Settings


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

    def __init__(self, queries: GroundedQueries, chosen: Tensor) -> None:
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


def scored(model: RNNLogic, chunk: Chunk, noise: RandomStreams | None = None) -> Scored:
    """What the rules add to the scores; with noise, a share of what they say is left out as the options ask."""
    share = model.options.dropout
    evidence = model.evidence(chunk.paths.rule, model.weigh(chunk.paths.count), chunk.paths.starts)
    less = model.weigh(chunk.left) - model.weigh(chunk.changed.count)
    changed = evidence[chunk.change_pair] + model.evidence(chunk.changed.rule, less, chunk.changed.starts)
    if noise is not None and share > 0:
        kept = noise.kept(tuple(evidence.shape), share)[0] / (1 - share)
        evidence, changed = evidence * kept, changed * kept[chunk.change_pair]
    relation = chunk.relation[chunk.query]
    both = model.rule_scores(torch.cat([evidence, changed]), torch.cat([relation, relation[chunk.change_pair]]))
    pair, changed = torch.split(both, [len(evidence), len(changed)])
    return Scored(pair, torch.where(chunk.gone, 0, changed))


_NOTHING = 1e-300

"""Where nothing is left to compare with, its logarithm still is a number."""


def fact_losses(chunk: Chunk, scored: Scored, base: Tensor, row: Tensor) -> Tensor:
    """The cross entropy of each fact that is asked [facts], float64.

    A fact is compared with all entities that are no other training answer of its query, and all of them are scored
    as if the fact were not in the graph: paths that pass through it do not count. Candidates without a path have their
    base as score; they enter by the sum over all entities, less what is not theirs.

    Args:
        chunk: The queries.
        scored: What the rules add to scores.
        base: Scores without rules [rows, entities].
        row: The row of each query.
    """
    base = base.double()
    rival = chunk.answer.logical_not().nonzero()[:, 0]
    changed = (~chunk.answer[chunk.change_pair]).nonzero()[:, 0]
    query, query_of_change = chunk.query[rival], chunk.query[chunk.change_pair]
    of_pair = base[row[chunk.query], chunk.candidate]
    with_rules, without_fact = of_pair + scored.pair, of_pair[chunk.change_pair] + scored.changed
    top = base.detach().amax(1)[row]
    top = top.scatter_reduce(0, query, with_rules.detach()[rival], "amax")
    top = top.scatter_reduce(0, query_of_change[changed], without_fact.detach()[changed], "amax")

    def mass(score: Tensor, of_query: Tensor) -> Tensor:
        return (score - top[of_query]).exp()

    of_target = base[row[chunk.fact_query], chunk.target]
    rest = (torch.logsumexp(base, 1)[row] - top).exp()
    rest = rest.index_add(0, chunk.fact_query, -mass(of_target, chunk.fact_query))
    rest = rest.index_add(0, query, mass(with_rules[rival], query) - mass(of_pair[rival], query))

    query, before = query_of_change[changed], with_rules[chunk.change_pair[changed]]
    change = mass(without_fact[changed], query) - mass(before, query)
    rivals = rest[chunk.fact_query].index_add(0, chunk.change_fact[changed], change)
    own = of_target + _of_targets(chunk, scored)
    others = top[chunk.fact_query] + rivals.clamp_min(_NOTHING).log()
    return (torch.logaddexp(others, own) - own)[chunk.asked]


def _of_targets(chunk: Chunk, scored: Scored) -> Tensor:
    """What the rules add to the score of each fact's target, without the fact."""
    found = (chunk.fact_pair >= 0).nonzero()[:, 0]
    added = scored.pair.new_zeros(len(chunk.target)).index_put((found,), scored.pair[chunk.fact_pair[found]])
    own = chunk.of_target
    return added.index_put((chunk.change_fact[own],), scored.changed[own]).double()


_UNKNOWN_PAIRS = 5.0

"""So many more pairs a rule is held to join that are no facts: few pairs say little."""


def initial_weights(rules: Rules, weight: float) -> Tensor:
    """The weight of each rule before the first step: a rule that is always right has the given one, in the limit.

    Example:
        >>> from dataclasses import replace
        >>> import numpy as np
        >>> rules = replace(Rules.from_bodies(1, [0], [[1]]), support=np.array([10.0]), pairs=np.array([15.0]))
        >>> initial_weights(rules, 2.0).tolist()
        [1.0]
    """
    return torch.from_numpy(weight * rules.support / (rules.pairs + _UNKNOWN_PAIRS)).float()


@dataclass(frozen=True, eq=False)
class RulePrior:
    """Normal distributions around the initial weights of rules, and around 0 for what candidates have without rules.

    Attributes:
        weights: The initial weights.
        rules: How strongly weights are held there, for each fact that is asked.
        biases: How strongly the others are held at 0, for each fact that is asked.
    """

    weights: Tensor
    rules: float
    biases: float

    @classmethod
    def of(cls, settings: Settings, rules: Rules, asked: int, device: torch.device) -> RulePrior:
        """That of the settings, for so many facts that are asked in an epoch."""
        weights = initial_weights(rules, settings.options.initial_weight).to(device)
        facts = max(asked, 1)
        return cls(weights, settings.regularisation / facts, settings.options.bias_regularisation / facts)

    def pull(self, model: RNNLogic) -> None:
        """Add to the gradients what the prior asks for."""
        if self.rules and model.linear:
            (self.rules * (model.rule[:, 0] - self.weights).square().sum()).backward()  # type: ignore[no-untyped-call]
        if self.biases and model.bias is not None:
            (self.biases * model.bias.square().sum()).backward()  # type: ignore[no-untyped-call]


_ON_CPU, _ON_GPU = 1 << 17, 1 << 20


def scores_at_once(device: torch.device) -> int:
    """How many scores of candidates are held at once: the parts of a step that is larger follow each other."""
    return _ON_CPU if device.type == "cpu" else _ON_GPU


def fit_epoch(
    model: RNNLogic,
    queries: GroundedQueries,
    batch: int,
    noise: RandomStreams,
    step: Callable[[], None],
    progress: Callable[[], None] = lambda: None,
) -> Tensor:
    """Ask every query once, in random order; gives the mean loss of the steps.

    Args:
        model: The predictor.
        queries: What it is asked.
        batch: Queries in a step.
        noise: The order, and what is left out.
        step: Follows the gradient, and forgets it.
        progress: Called after each step.
    """
    model.train()
    total, steps = torch.zeros((), dtype=torch.float64, device=model.rule.device), 0
    for chosen in torch.split(noise.order(len(queries))[0], batch):
        asked = queries.asked[chosen].sum()
        for some in queries.chunks(chosen, scores_at_once(model.rule.device)):
            chunk = Chunk(queries, some)
            losses = fact_losses(chunk, scored(model, chunk, noise), *model.base(chunk.relation))
            loss = losses.sum() / asked
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        step()
        steps += 1
        progress()
    return total / max(steps, 1)
