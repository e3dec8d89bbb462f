"""Training of the RNNLogic predictor: batches of grounded queries, scores, losses and priors of rule weights."""

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
    """Rules and their numbers of paths, for one pair after the other.

    Attributes:
        starts: Start of the rules of each pair: int64 [pairs].
        rule: Index among all rules: int32 [n].
        count: Number of paths: int16 [n].
    """

    starts: Tensor
    rule: Tensor
    count: Tensor

    @property
    def sizes(self) -> Tensor:
        """Number of rules of each pair."""
        return torch.diff(self.starts, append=self.starts.new_tensor([len(self.rule)]))


class Chunk:
    """A batch of grounded queries; see `RelationBlock`.

    Attributes:
        relation: The relation of each query.
        query: The query of each pair.
        candidate: The candidate of each pair.
        answer: Whether the candidate is a training answer.
        paths: The rules that lead to each pair.
        triple_query, target: Query and answer of each training triple.
        triple_pair: The pair of each triple, or -1.
        asked: Whether the triple is a training example.
        change_triple, change_pair: Triple and pair of each change: the pair loses paths without the triple.
        gone: Whether no path is left.
        changed: The rules that lose paths, with their total numbers of paths.
        left: Their numbers of paths left.
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
        self.triple_query, triples = queries.triples.rows(chosen)
        self.target, self.asked = triples["target"].long(), triples["asked"]
        self.triple_pair = torch.where(triples["pair"] < 0, -1, triples["pair"] + first_pair[self.triple_query])

        first_triple = begins(queries.triples.sizes[chosen])
        row, changes = queries.changes.rows(chosen)
        self.change_triple = changes["triple"] + first_triple[row]
        self.change_pair = changes["pair"] + first_pair[row]
        self.gone = changes["gone"]
        row, changed = queries.changed.rows(chosen)
        starts = begins(changes["rules"].long())
        self.changed = Paths(starts, changed["rule"] + first_rule[row], changed["count"])
        self.left = changed["left"]

    @property
    def of_target(self) -> Tensor:
        """Which changes concern the target of their triple."""
        return self.candidate[self.change_pair] == self.target[self.change_triple]


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores from rules in a chunk.

    Attributes:
        pair: Score of each pair: float32 [pairs].
        changed: Score of each changed pair, 0 where no path is left: float32 [changes].
    """

    pair: Tensor
    changed: Tensor


def scored(model: RNNLogic, chunk: Chunk, streams: RandomStreams | None = None) -> Scored:
    """The scores from rules; with random streams, with the dropout of the options."""
    share = model.options.dropout
    evidence = model.evidence(chunk.paths.rule, model.weigh(chunk.paths.count), chunk.paths.starts)
    less = model.weigh(chunk.left) - model.weigh(chunk.changed.count)
    changed = evidence[chunk.change_pair] + model.evidence(chunk.changed.rule, less, chunk.changed.starts)
    if streams is not None and share > 0:
        kept = streams.kept(tuple(evidence.shape), share)[0] / (1 - share)
        evidence, changed = evidence * kept, changed * kept[chunk.change_pair]
    relation = chunk.relation[chunk.query]
    both = model.rule_scores(torch.cat([evidence, changed]), torch.cat([relation, relation[chunk.change_pair]]))
    pair, changed = torch.split(both, [len(evidence), len(changed)])
    return Scored(pair, torch.where(chunk.gone, 0, changed))


_SMALLEST = 1e-300
"""Lower bound of sums of exponentials, whose logarithm must be finite."""


def triple_losses(chunk: Chunk, scored: Scored, base: Tensor, row: Tensor) -> Tensor:
    """The cross entropy of each training example, float64 [triples].

    The target is compared with all entities that are not other training answers of the query, and all are scored as if
    the triple were not in the graph: paths through it do not count. Candidates without a path have their base score;
    they enter through the sum over all entities, from which the others are subtracted.
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

    of_target = base[row[chunk.triple_query], chunk.target]
    rest = (torch.logsumexp(base, 1)[row] - top).exp()
    rest = rest.index_add(0, chunk.triple_query, -mass(of_target, chunk.triple_query))
    rest = rest.index_add(0, query, mass(with_rules[rival], query) - mass(of_pair[rival], query))

    query, before = query_of_change[changed], with_rules[chunk.change_pair[changed]]
    change = mass(without_fact[changed], query) - mass(before, query)
    rivals = rest[chunk.triple_query].index_add(0, chunk.change_triple[changed], change)
    own = of_target + _of_targets(chunk, scored)
    others = top[chunk.triple_query] + rivals.clamp_min(_SMALLEST).log()
    return (torch.logaddexp(others, own) - own)[chunk.asked]


def _of_targets(chunk: Chunk, scored: Scored) -> Tensor:
    """The score from rules of each triple's target, without the triple."""
    found = (chunk.triple_pair >= 0).nonzero()[:, 0]
    added = scored.pair.new_zeros(len(chunk.target)).index_put((found,), scored.pair[chunk.triple_pair[found]])
    own = chunk.of_target
    return added.index_put((chunk.change_triple[own],), scored.changed[own]).double()


_UNKNOWN_PAIRS = 5.0
"""Added to the number of pairs in the confidence of a rule, as in AnyBURL: few pairs are weak evidence."""


def initial_weights(rules: Rules, weight: float) -> Tensor:
    """Initial weight of each rule: the given weight times its smoothed confidence.

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
    """Gaussian priors: of rule weights around their initial values, and of biases around 0.

    Attributes:
        weights: The initial rule weights.
        rules: Weight of the penalty on rule weights, per training example.
        biases: Weight of the penalty on biases, per training example.
    """

    weights: Tensor
    rules: float
    biases: float

    @classmethod
    def of(cls, settings: Settings, rules: Rules, asked: int, device: torch.device) -> RulePrior:
        """The prior of the settings for this number of training examples in an epoch."""
        weights = initial_weights(rules, settings.options.initial_weight).to(device)
        examples = max(asked, 1)
        return cls(weights, settings.regularisation / examples, settings.options.bias_regularisation / examples)

    def pull(self, model: RNNLogic) -> None:
        """Add the gradients of the penalties."""
        if self.rules and model.linear:
            (self.rules * (model.rule[:, 0] - self.weights).square().sum()).backward()  # type: ignore[no-untyped-call]
        if self.biases and model.bias is not None:
            (self.biases * model.bias.square().sum()).backward()  # type: ignore[no-untyped-call]


_ON_CPU, _ON_GPU = 1 << 17, 1 << 20


def scores_at_once(device: torch.device) -> int:
    """Maximum number of scores in memory; a larger step is computed in parts."""
    return _ON_CPU if device.type == "cpu" else _ON_GPU


def fit_epoch(
    model: RNNLogic,
    queries: GroundedQueries,
    batch: int,
    streams: RandomStreams,
    step: Callable[[], None],
    progress: Callable[[], None] = lambda: None,
) -> Tensor:
    """Train on every query once, in random order; returns the mean loss of the steps."""
    model.train()
    total, steps = torch.zeros((), dtype=torch.float64, device=model.rule.device), 0
    for chosen in torch.split(streams.order(len(queries))[0], batch):
        asked = queries.asked[chosen].sum()
        for some in queries.chunks(chosen, scores_at_once(model.rule.device)):
            chunk = Chunk(queries, some)
            losses = triple_losses(chunk, scored(model, chunk, streams), *model.base(chunk.relation))
            loss = losses.sum() / asked
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.detach()
        step()
        steps += 1
        progress()
    return total / max(steps, 1)
