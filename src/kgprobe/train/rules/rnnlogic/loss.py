"""The cross entropy of facts against all entities, from the scores of the few that rules lead to."""

from __future__ import annotations

import torch
from torch import Tensor

from kgprobe.train.rules.rnnlogic.chunk import Chunk, Scored

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
