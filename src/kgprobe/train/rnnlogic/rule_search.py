"""The rule search of RNNLogic: a generator proposes rules and is trained on the posterior of the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kgprobe.models.embedding_model import Sizes
from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.rnnlogic import RNNLogic, RNNLogicOptions
from kgprobe.models.rnnlogic_generator import Fitting, GeneratedRules, Generator, train_generator
from kgprobe.models.rules.groundings import Grounder
from kgprobe.models.rules.mining import mine
from kgprobe.models.rules.rule_statistics import Measure
from kgprobe.models.rules.rule_table import Rules
from kgprobe.train.optimiser import load_weights, prefixed, under
from kgprobe.train.rnnlogic.grounded_queries import Amount, GroundedQueries, ground_queries, ranges
from kgprobe.train.rnnlogic.predictor_training import Chunk, fit_epoch, scores_at_once


@torch.no_grad()
def explained(model: RNNLogic, queries: GroundedQueries, most: int) -> Tensor:
    """The share of the triples of its relation that each rule explains: float64 [rules], at most 1 per relation in sum.

    A triple is explained by the rules that lead to its answer without the triple itself, in proportion to exp(their
    score of the answer minus their mean score of the query's candidates) (H in Qu et al. 2021; there over all rules of
    the relation, so that rules without a grounding get a share too).
    """
    share, triples = model.rule.new_zeros(len(model.rule), dtype=torch.float64), torch.zeros_like(queries.first_rule)
    for chosen in queries.chunks(torch.arange(len(queries), device=share.device), most):
        chunk = Chunk(queries, chosen)
        relation = chunk.relation[chunk.triple_query]
        first = queries.first_rule[relation]
        rules = int(queries.first_rule.diff().max())
        leads, says = _of_targets(model, chunk, first, rules)
        leads &= chunk.asked[:, None]
        some = leads.any(1)
        against = (says - _on_average(model, chunk, queries.first_rule, rules)).masked_fill(~leads, -torch.inf)[some]
        triple, place = leads[some].nonzero(as_tuple=True)
        share.index_add_(0, first[some][triple] + place, against.softmax(1)[triple, place])
        triples.index_add_(0, relation[chunk.asked], torch.ones_like(relation[chunk.asked]))
    return share / triples[:-1].repeat_interleave(queries.first_rule.diff()).clamp_min(1)


def _of_targets(model: RNNLogic, chunk: Chunk, first: Tensor, rules: int) -> tuple[Tensor, Tensor]:
    """Whether each rule of the relation leads to the answer of each triple, and its score: [triples, rules]."""
    count = torch.zeros(len(chunk.target), rules, dtype=model.rule.dtype, device=first.device)
    found = (chunk.triple_pair >= 0).nonzero()[:, 0]
    entry, place = ranges(chunk.paths.starts[chunk.triple_pair[found]], chunk.paths.sizes[chunk.triple_pair[found]])
    triple = found[place]
    count[triple, chunk.paths.rule[entry] - first[triple]] = chunk.paths.count[entry].to(count.dtype)
    change = torch.arange(len(chunk.change_triple), device=first.device).repeat_interleave(chunk.changed.sizes)
    own = chunk.of_target[change].nonzero()[:, 0]
    triple = chunk.change_triple[change[own]]
    count[triple, chunk.changed.rule[own] - first[triple]] = chunk.left[own].to(count.dtype)
    place = (first[:, None] + torch.arange(rules, device=first.device)).clamp_max(max(len(model.rule) - 1, 0))
    return count > 0, (model.rule[place, 0] * model.weigh(count)).double()


def _on_average(model: RNNLogic, chunk: Chunk, first_rule: Tensor, rules: int) -> Tensor:
    """The mean score of each rule over the candidates of the triple's query: float64 [triples, rules]."""
    total = torch.zeros(len(chunk.relation), rules, dtype=torch.float64, device=first_rule.device)
    query = chunk.query.repeat_interleave(chunk.paths.sizes)
    rule = chunk.paths.rule.long()
    said = (model.rule[rule, 0] * model.weigh(chunk.paths.count)).double()
    total.index_put_((query, rule - first_rule[chunk.relation][query]), said, accumulate=True)
    candidates = torch.bincount(chunk.query, minlength=len(chunk.relation)).clamp_min(1)
    return (total / candidates[:, None])[chunk.triple_query]


_STARTS = 500
"""Maximum number of entities from which a rule is grounded to measure its confidence."""

PhaseProgress: TypeAlias = Callable[[str], None]
"""Called with the current phase."""


class RuleSearch:
    """The search for the rules of one run.

    Args:
        options: The settings of the model.
        grounder: Grounds rules in the training triples.
        streams: Random generator of the run, reseeded for every epoch.
        seed: The seed of the run.
        device: Where the generator and the predictor compute.

    Attributes:
        generator: Proposes rules.
        found: The mined rules, and all proposed rules that explain triples.
        score: The largest share of triples that each of these rules has explained; 0 if it was not proposed.
    """

    def __init__(
        self, options: RNNLogicOptions, grounder: Grounder, streams: RandomStreams, seed: int, device: torch.device
    ) -> None:
        self.options, self.grounder, self.streams, self.seed, self.device = options, grounder, streams, seed, device
        relations = grounder.adjacency.relations
        self.sizes = Sizes(grounder.adjacency.entities, 2 * relations)
        initial = RandomStreams([seed], "cpu")
        initial.reseed(-1)
        dimension, hidden = options.generator_dimension, options.generator_hidden
        self.generator = Generator(2 * relations, dimension, hidden, initial).to(device)
        self.found, self.score = Rules.empty(relations, options.rule_length), np.zeros(0)

    def begin(self, rng: np.random.Generator, progress: PhaseProgress) -> None:
        """Mine rules, and train the generator on those that explain triples."""
        options = self.options
        progress("mining")
        mined = mine(self.grounder.adjacency, length=options.rule_length, triples=options.mined_facts, seed=self.seed)
        # Support times confidence: the number of predicted triples, weighted by their probability.
        kept = _best_of_each(mined.head, mined.support * mined.confidence, options.mined_rules)
        self.found = mined.at(kept)
        self.score = self._explained(self.found, rng, progress)
        progress("teaching")
        self._teach(self.found, self.score, options.pretraining_steps)

    def iterate(self, rng: np.random.Generator, progress: PhaseProgress) -> float:
        """Sample rules, and train the generator on their posterior; returns the loss of the generator."""
        options = self.options
        progress("proposing")
        proposed = self.generator.sample(self._heads, options.sampled_rules, options.rule_length, self.streams)
        rules, prior = _rules_of(proposed, self.found.relations)
        share = self._explained(rules, rng, progress)
        self._remember(rules, share)
        progress("teaching")
        posterior = np.maximum(share + options.prior_weight * prior, 0)
        return self._teach(rules, posterior, options.generator_steps)

    def chosen(self) -> Rules:
        """The rules of each relation: by turns the likeliest of the generator and those that explain most triples."""
        options = self.options
        proposed = self.generator.beam_search(self._heads, options.rules_per_relation, options.rule_length)
        likely, prior = _rules_of(proposed, self.found.relations)
        explaining = self.score > 0
        seen = self.found.at(explaining)
        every = self.found.joined(likely)
        rank = np.full(len(every), np.inf)
        for table, score in ((seen, self.score[explaining]), (likely, prior)):
            place = _places(every, table)
            rank[place] = np.minimum(rank[place], _rank_in_head(table.head, score))
        kept = _best_of_each(every.head, -rank, options.rules_per_relation)
        return self._measured(every.at(kept[np.isfinite(rank[kept])]))

    def state(self) -> dict[str, Tensor]:
        generator = {name: tensor.detach() for name, tensor in self.generator.state_dict().items()}
        rules = prefixed("found.", self.found.tensors())
        return prefixed("generator.", generator) | rules | {"score": torch.from_numpy(self.score)}

    def load(self, state: Mapping[str, Tensor]) -> None:
        load_weights(self.generator, under("generator.", state))
        self.found = Rules.from_tensors(under("found.", state))
        self.score = state["score"].cpu().numpy().copy()

    @property
    def _heads(self) -> Tensor:
        return torch.arange(self.sizes.relations, device=self.device)

    def _explained(self, rules: Rules, rng: np.random.Generator, progress: PhaseProgress) -> NDArray[np.float64]:
        """The share of a sample of its relation's triples that each rule explains, by a linear predictor."""
        options = self.options
        progress("grounding")
        amount = Amount(triples=options.em_facts, groundings=options.most_groundings)
        queries = ground_queries(self.grounder, rules, amount, rng).to(self.device)
        progress("weighing")
        linear = replace(options, predictor="linear", dropout=0.0)
        model = RNNLogic(self.sizes, len(rules), linear, self.streams).to(self.device)
        optimiser = torch.optim.Adam(model.parameters(), lr=options.em_rate)
        batch = max(1, min(64, len(queries)))
        for _ in range(-(-options.em_steps * batch // len(queries))):
            fit_epoch(model, queries, batch, self.streams, lambda: _update(optimiser))
        share: NDArray[np.float64] = explained(model, queries, scores_at_once(self.device)).cpu().numpy()
        return share

    def _teach(self, rules: Rules, weight: NDArray[np.float64], steps: int) -> float:
        options = self.options
        total = np.bincount(rules.head, weight, minlength=self.sizes.relations)
        balanced = np.divide(weight, total[rules.head], out=np.zeros_like(weight), where=total[rules.head] > 0)
        head = torch.from_numpy(rules.head.astype(np.int64)).to(self.device)
        body = torch.from_numpy(rules.body.astype(np.int64)).to(self.device)
        fitting = Fitting(steps, options.generator_batch, options.generator_rate)
        return train_generator(
            self.generator, head, body, torch.from_numpy(balanced).to(self.device), fitting, self.streams
        )

    def _measured(self, rules: Rules) -> Rules:
        """The rules by head, with the statistics that generated rules lack."""
        unmeasured = rules.at(rules.pairs == 0)
        every = Measure(self.grounder.adjacency, starts=_STARTS, seed=self.seed).of(unmeasured).joined(rules)
        return every.at(np.argsort(every.head, kind="stable"))

    def _remember(self, rules: Rules, share: NDArray[np.float64]) -> None:
        kept = share > 0
        rules, share = rules.at(kept), share[kept]
        every = self.found.joined(rules)
        score = np.zeros(len(every))
        score[: len(self.score)] = self.score
        place = _places(every, rules)
        score[place] = np.maximum(score[place], share)
        self.found, self.score = every, score


def _update(optimiser: torch.optim.Optimizer) -> None:
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)


def _rules_of(proposed: GeneratedRules, relations: int) -> tuple[Rules, NDArray[np.float64]]:
    """Generated rules by head and their log probabilities, without those whose body is their head."""
    head, body = proposed.head.cpu().numpy(), proposed.body.cpu().numpy()
    sensible = (body[:, 0] != head) | ((body[:, 1:] >= 0).any(1))
    order = np.flatnonzero(sensible)[np.argsort(head[sensible], kind="stable")]
    prior = proposed.log_probability.double().cpu().numpy()
    return Rules.from_bodies(relations, head[order], body[order].reshape(len(order), -1)), prior[order]


def _best_of_each(head: NDArray[np.int32], score: NDArray[np.float64], each: int) -> NDArray[np.int64]:
    """Indices of the rules with the largest scores of each head, ordered by head, the best first."""
    order = np.lexsort((-score, head))
    return order[_rank_in_head(head, score)[order] < each]


def _rank_in_head(head: NDArray[np.int32], score: NDArray[np.float64]) -> NDArray[np.int64]:
    """Rank of each rule among those of its head, from 0, by descending score."""
    order = np.lexsort((-score, head))
    ordered = head[order]
    rank = np.empty(len(head), dtype=np.int64)
    rank[order] = np.arange(len(head)) - np.searchsorted(ordered, ordered)
    return rank


def _places(every: Rules, some: Rules) -> NDArray[np.int64]:
    """Index of each of some rules among all of them."""
    width = every.body.shape[1]
    both = np.concatenate([_rows(every, width), _rows(some, width)])
    _, first, row = np.unique(both, axis=0, return_index=True, return_inverse=True)
    return first[row.reshape(-1)[len(every) :]]


def _rows(rules: Rules, width: int) -> NDArray[np.int32]:
    body = np.pad(rules.body, ((0, 0), (0, width - rules.body.shape[1])), constant_values=-1)
    return np.column_stack([rules.head, body])
