"""The rule generator of RNNLogic: an LSTM that generates rule bodies."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor, nn

from kgprobe.models.random_streams import RandomStreams

_BEAM_NUMBERS = 1 << 25  # largest tensor of a step of the beam search


@dataclass(frozen=True, eq=False)
class GeneratedRules:
    """Rules of the generator.

    Attributes:
        head: Relation of the head: int64 [n].
        body: Relations of the body, padded with -1: int64 [n, length].
        log_probability: Log probability of the body, given the head: float32 [n].
    """

    head: Tensor
    body: Tensor
    log_probability: Tensor


class Generator(nn.Module):
    """An LSTM that predicts the next relation of the body, or its end, from the head and the relations so far.

    Args:
        relations: Number of relations, the reverse ones included.
        dimension: Coordinates of a relation embedding.
        hidden: Hidden units.
        streams: Random generators of the initial parameters, for one run.

    Example:
        >>> streams = RandomStreams([0], "cpu")
        >>> generator = Generator(relations=4, dimension=3, hidden=5, streams=streams)
        >>> best = generator.beam_search(torch.tensor([0, 3]), each=2, length=2)
        >>> best.head.tolist(), best.body.shape
        ([0, 0, 3, 3], torch.Size([4, 2]))
    """

    def __init__(self, relations: int, dimension: int, hidden: int, streams: RandomStreams) -> None:
        super().__init__()
        self.stop = relations
        self.token = nn.Embedding(relations + 1, dimension, device="meta").to_empty(device=streams.device)
        self.head = nn.Embedding(relations, dimension, device="meta").to_empty(device=streams.device)
        self.memory = nn.LSTM(2 * dimension, hidden, batch_first=True, device="meta").to_empty(device=streams.device)
        self.output = nn.Linear(hidden, relations + 1, device="meta").to_empty(device=streams.device)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_((2 * streams.uniform(tuple(parameter.shape))[0] - 1) / hidden**0.5)

    def log_probability(self, head: Tensor, body: Tensor) -> Tensor:
        """Log probabilities of bodies [n, length], given the heads [n]; differentiable."""
        stop = torch.full_like(body[:, :1], self.stop)
        tokens = torch.where(body < 0, self.stop, body)
        inputs, targets = torch.cat([stop, tokens], 1), torch.cat([tokens, stop], 1)
        outputs, _ = self.memory(self._inputs(head[:, None].expand_as(inputs), inputs))
        each = self.output(outputs).log_softmax(-1).gather(2, targets[..., None])[..., 0]
        # Tokens after the first stop do not count.
        counted = torch.cat([torch.ones_like(body[:, :1], dtype=torch.bool), body >= 0], 1)
        total: Tensor = (each * counted).sum(1)
        return total

    @torch.no_grad()
    def sample(self, heads: Tensor, each: int, length: int, streams: RandomStreams) -> GeneratedRules:
        """Sample ``each`` bodies for every head; without duplicates and empty bodies."""
        head = heads.repeat_interleave(each)
        body = torch.full((len(head), length), -1, dtype=torch.int64, device=head.device)
        token, state = torch.full_like(head, self.stop), None
        total = torch.zeros(len(head), device=head.device)
        unfinished = torch.ones_like(head, dtype=torch.bool)
        for position in range(length + 1):
            log_probabilities, state = self._next(head, token, state)
            if position < length:
                # Gumbel-max trick: the argmax of perturbed log probabilities is a sample.
                uniform = streams.uniform(tuple(log_probabilities.shape))[0].clamp_(1e-10, 1 - 1e-7)
                token = (log_probabilities - (-uniform.log()).log()).argmax(-1)
            else:
                token = torch.full_like(token, self.stop)
            total += torch.where(unfinished, log_probabilities.gather(1, token[:, None])[:, 0], 0)
            unfinished &= token != self.stop
            if position < length:
                body[:, position] = torch.where(unfinished, token, -1)
        return _distinct(head, body, total)

    @torch.no_grad()
    def beam_search(self, heads: Tensor, each: int, length: int) -> GeneratedRules:
        """The most likely bodies of each head, by a beam search of width ``each``."""
        at_once = max(1, _BEAM_NUMBERS // (each * (self.stop + 1)))
        parts = [self._beams(some, each, length) for some in torch.split(heads, at_once)]
        columns = (torch.cat([getattr(part, field.name) for part in parts]) for field in fields(GeneratedRules))
        return GeneratedRules(*columns)

    def _beams(self, heads: Tensor, each: int, length: int) -> GeneratedRules:
        count, tokens = len(heads), self.stop + 1
        total = torch.zeros(count, 1, device=heads.device)
        body = torch.full((count, 1, length), -1, dtype=torch.int64, device=heads.device)
        token = torch.full((count, 1), self.stop, device=heads.device)
        finished = torch.zeros(count, 1, dtype=torch.bool, device=heads.device)
        state: tuple[Tensor, Tensor] | None = None
        for position in range(length + 1):
            width = total.shape[1]
            flat, state = self._next(heads.repeat_interleave(width), token.flatten(), state)
            log_probabilities = flat.view(count, width, tokens)
            if position == length:
                total = total + torch.where(finished, 0, log_probabilities[..., self.stop])
                break
            # A finished body has one continuation.
            ended = torch.full_like(log_probabilities, -torch.inf)
            ended[..., self.stop] = 0
            extended = (total[..., None] + torch.where(finished[..., None], ended, log_probabilities)).flatten(1)
            total, chosen = extended.topk(min(each, extended.shape[1]), dim=1)
            parent, token = chosen // tokens, chosen % tokens
            finished = finished.gather(1, parent) | (token == self.stop)
            body = body.gather(1, parent[..., None].expand(-1, -1, length)).clone()
            body[..., position] = torch.where(finished, -1, token)
            rows = (parent + torch.arange(count, device=heads.device)[:, None] * width).flatten()
            state = (state[0][:, rows], state[1][:, rows])
        valid = torch.isfinite(total) & (body[..., 0] >= 0)
        return GeneratedRules(heads[:, None].expand_as(total)[valid], body[valid], total[valid])

    def _next(
        self, head: Tensor, token: Tensor, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs, after = self.memory(self._inputs(head, token)[:, None], state)
        log_probabilities: Tensor = self.output(outputs[:, 0]).log_softmax(-1)
        return log_probabilities, after

    def _inputs(self, head: Tensor, token: Tensor) -> Tensor:
        return torch.cat([self.token(token), self.head(head)], -1)


@dataclass(frozen=True)
class Fitting:
    """Number of steps, batch size (in rules) and learning rate of the generator's training."""

    steps: int
    batch: int
    rate: float


def train_generator(
    generator: Generator, head: Tensor, body: Tensor, weight: Tensor, fitting: Fitting, streams: RandomStreams
) -> float:
    """Train the generator on weighted rules; return the mean loss of the last quarter of the steps.

    Rules are sampled in proportion to their weights, so that the expected loss is the weighted cross entropy.
    """
    if not fitting.steps or not len(head) or not float(weight.sum()):
        return 0.0
    optimiser = torch.optim.Adam(generator.parameters(), lr=fitting.rate)
    losses = []
    for _ in range(fitting.steps):
        chosen = torch.multinomial(weight, fitting.batch, replacement=True, generator=streams.generators[0])
        loss = -generator.log_probability(head[chosen], body[chosen]).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.detach())
    return float(torch.stack(losses[-max(1, len(losses) // 4) :]).mean())


def _distinct(head: Tensor, body: Tensor, log_probability: Tensor) -> GeneratedRules:
    """Remove duplicate rules and rules with an empty body."""
    valid = body[:, 0] >= 0
    head, body, log_probability = head[valid], body[valid], log_probability[valid]
    rules, rule = torch.unique(torch.cat([head[:, None], body], 1), dim=0, return_inverse=True)
    first = torch.full((len(rules),), len(head), dtype=torch.int64, device=head.device)
    first.scatter_reduce_(0, rule, torch.arange(len(head), device=head.device), "amin")
    return GeneratedRules(rules[:, 0], rules[:, 1:], log_probability[first])
