"""How much each rule explains of the training facts: what the generator is taught by."""

from __future__ import annotations

import torch
from torch import Tensor

from kgprobe.models.rnnlogic.model import RNNLogic
from kgprobe.train.rules.rnnlogic.chunk import Chunk
from kgprobe.train.rules.rnnlogic.queries import TrainingQueries
from kgprobe.train.rules.rnnlogic.ragged import ranges


@torch.no_grad()
def explained(model: RNNLogic, queries: TrainingQueries, most: int) -> Tensor:
    """The share of its relation's facts that each rule explains: float64 [rules]; of a relation at most 1 in sum.

    A fact is explained by the rules that lead to its answer without the fact, in proportion to the exponential of what
    they say of the answer less what they say of the query's candidates on average (H in Qu et al. 2021, there over all
    rules of the relation, so that those that lead nowhere explain everything a little).

    Args:
        model: A linear predictor.
        queries: Training queries.
        most: How many scores may be held at once.
    """
    share, facts = model.rule.new_zeros(len(model.rule), dtype=torch.float64), torch.zeros_like(queries.first_rule)
    for chosen in queries.chunks(torch.arange(len(queries), device=share.device), most):
        chunk = Chunk(queries, chosen)
        relation = chunk.relation[chunk.fact_query]
        first = queries.first_rule[relation]
        rules = int(queries.first_rule.diff().max())
        leads, says = _of_targets(model, chunk, first, rules)
        leads &= chunk.asked[:, None]
        some = leads.any(1)
        against = (says - _on_average(model, chunk, queries.first_rule, rules)).masked_fill(~leads, -torch.inf)[some]
        fact, place = leads[some].nonzero(as_tuple=True)
        share.index_add_(0, first[some][fact] + place, against.softmax(1)[fact, place])
        facts.index_add_(0, relation[chunk.asked], torch.ones_like(relation[chunk.asked]))
    return share / facts[:-1].repeat_interleave(queries.first_rule.diff()).clamp_min(1)


def _of_targets(model: RNNLogic, chunk: Chunk, first: Tensor, rules: int) -> tuple[Tensor, Tensor]:
    """Whether each rule of the relation leads to the answer of each fact, and what it says: [facts, rules]."""
    count = torch.zeros(len(chunk.target), rules, dtype=model.rule.dtype, device=first.device)
    found = (chunk.fact_pair >= 0).nonzero()[:, 0]
    entry, place = ranges(chunk.paths.starts[chunk.fact_pair[found]], chunk.paths.sizes[chunk.fact_pair[found]])
    fact = found[place]
    count[fact, chunk.paths.rule[entry] - first[fact]] = chunk.paths.count[entry].to(count.dtype)
    change = torch.arange(len(chunk.change_fact), device=first.device).repeat_interleave(chunk.changed.sizes)
    own = chunk.of_target[change].nonzero()[:, 0]
    fact = chunk.change_fact[change[own]]
    count[fact, chunk.changed.rule[own] - first[fact]] = chunk.left[own].to(count.dtype)
    place = (first[:, None] + torch.arange(rules, device=first.device)).clamp_max(max(len(model.rule) - 1, 0))
    return count > 0, (model.rule[place, 0] * model.weigh(count)).double()


def _on_average(model: RNNLogic, chunk: Chunk, first_rule: Tensor, rules: int) -> Tensor:
    """What each rule says of a candidate of the fact's query on average: float64 [facts, rules]."""
    total = torch.zeros(len(chunk.relation), rules, dtype=torch.float64, device=first_rule.device)
    query = chunk.query.repeat_interleave(chunk.paths.sizes)
    rule = chunk.paths.rule.long()
    said = (model.rule[rule, 0] * model.weigh(chunk.paths.count)).double()
    total.index_put_((query, rule - first_rule[chunk.relation][query]), said, accumulate=True)
    candidates = torch.bincount(chunk.query, minlength=len(chunk.relation)).clamp_min(1)
    return (total / candidates[:, None])[chunk.fact_query]
