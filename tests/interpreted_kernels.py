"""Runs the kernels for negative samples on a CPU, and tells how far they are from plain float64 arithmetic.

It is a program of its own since kernels are interpreted only where TRITON_INTERPRET is set before they are imported.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import torch

from kgprobe.models.embedding_rows import Projection, sampled_scores
from kgprobe.predict.scorers import Dot, GroupNorm, Similarity


@dataclass(frozen=True)
class Case:
    """Sizes of a task: S runs, B queries, K answers, N entities, D coordinates."""

    similarity: Similarity
    dimension: int
    projections: int = 0
    runs: int = 2
    queries: int = 3
    answers: int = 7
    entities: int = 11
    block: int = 1


CASES = {
    "dot": Case(Dot(), 10),
    "dot-long": Case(Dot(), 300, runs=1),
    "dot-one": Case(Dot(), 1, runs=1, queries=1, answers=1, entities=1),
    "groups of 1": Case(GroupNorm(1, 3.0), 9),
    "groups of 2": Case(GroupNorm(2, 3.0), 6),
    "groups of 2-long": Case(GroupNorm(2, 3.0), 300, runs=1, answers=37),
    "groups of 5": Case(GroupNorm(5, 3.0), 20),
    "all": Case(GroupNorm(None, 3.0), 9),
    "all-long": Case(GroupNorm(None, 3.0), 131, runs=1, answers=40),
    "all-even": Case(GroupNorm(None, 3.0), 8),
    "projected in fours": Case(GroupNorm(4, 3.0), 12, projections=2, block=4, answers=35),
    "projected by 1": Case(GroupNorm(5, 3.0), 20, projections=1, block=5),
    "projected by 2": Case(GroupNorm(3, 3.0), 9, projections=2, block=3, answers=35),
    "projected by 3": Case(GroupNorm(20, 3.0), 160, projections=3, block=20, runs=1),
}


def differences(case: Case, seed: int = 0) -> dict[str, float]:
    """The largest difference of scores and of each gradient, as a share of the largest value there is."""
    leaves, ids, weight = _made(case, seed)
    fast = {name: own.float().requires_grad_() for name, own in leaves.items()}
    slow = {name: own.requires_grad_() for name, own in leaves.items()}
    found = sampled_scores(case.similarity, fast["queries"], fast["table"], ids, _projection(fast))
    expected = _reference(case, slow, ids)
    pairs = {"scores": (found, expected)}
    gradients = torch.autograd.grad((found * weight.float()).sum(), list(fast.values()))
    slow_gradients = torch.autograd.grad((expected * weight).sum(), list(slow.values()))
    pairs |= {name: pair for name, *pair in zip(leaves, gradients, slow_gradients, strict=True)}  # type: ignore[misc]
    return {name: _apart(own, other) for name, (own, other) in pairs.items()}


def at_no_distance() -> bool:
    """Whether gradients are finite, and zero, where an answer is exactly what is asked for."""
    table = torch.arange(24.0).reshape(1, 4, 6).requires_grad_()
    queries = table.detach()[:, 1:2].clone().requires_grad_()
    found = sampled_scores(GroupNorm(2, 3.0), queries, table, torch.tensor([[[1]]]), None)
    gradients = torch.autograd.grad(found.sum(), (queries, table))
    return found.item() == 3.0 and all(bool((gradient == 0).all()) for gradient in gradients)


def _made(case: Case, seed: int) -> tuple[dict[str, torch.Tensor], torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).double()  # numbers that float32 has

    shape = (case.runs, case.queries, case.answers)
    leaves = {
        "queries": normal(case.runs, case.queries, case.dimension),
        "table": normal(case.runs, case.entities, case.dimension),
    }
    if case.projections:
        groups = case.dimension // case.block
        axes = normal(case.runs, case.queries, case.projections, groups, case.block)
        axes = axes / axes.norm(dim=-1, keepdim=True)
        leaves["axes"] = axes.flatten(-2).float().double()
        shares = torch.rand(case.runs, case.queries, case.projections, groups, generator=generator)
        leaves["shares"] = (shares * 1.4 - 0.9).double()
    return leaves, torch.randint(case.entities, shape, generator=generator), normal(*shape)


def _projection(leaves: dict[str, torch.Tensor]) -> Projection | None:
    return Projection(leaves["axes"], leaves["shares"]) if "axes" in leaves else None


def _reference(case: Case, leaves: dict[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
    """One answer after the other."""
    scores = [
        _score(case, leaves, run, query, int(ids[run, query, answer]))
        for run in range(case.runs)
        for query in range(case.queries)
        for answer in range(case.answers)
    ]
    return torch.stack(scores).reshape(ids.shape)


def _score(case: Case, leaves: dict[str, torch.Tensor], run: int, query: int, entity: int) -> torch.Tensor:
    vector, asked = leaves["table"][run, entity], leaves["queries"][run, query]
    if isinstance(case.similarity, Dot):
        return (vector * asked).sum()
    blocks = vector.reshape(-1, case.similarity.width(case.dimension))
    for number in range(case.projections):
        axis = leaves["axes"][run, query, number].reshape(blocks.shape)
        share = leaves["shares"][run, query, number]
        blocks = blocks - (share * (axis * blocks).sum(-1))[:, None] * axis
    return case.similarity.gamma - (asked.reshape(blocks.shape) - blocks).pow(2).sum(-1).sqrt().sum()


def _apart(own: torch.Tensor, other: torch.Tensor) -> float:
    return float((own - other).abs().max() / other.abs().max())


if __name__ == "__main__":
    found = {name: differences(case) for name, case in CASES.items()}
    print(json.dumps({"cases": found, "at_no_distance": at_no_distance()}))
