"""The rule generator of RNNLogic: a recurrent network that writes rule bodies."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from kgprobe.models.random_streams import RandomStreams

_AT_ONCE = 1 << 25

"""So many numbers a step of a search may hold."""


@dataclass(frozen=True, eq=False)
class GeneratedRules:
    """Rules that the generator has written.

    Attributes:
        head: What they conclude: int64 [n].
        body: Their relations, filled with -1 behind the last: int64 [n, length].
        log_probability: Of the body, given the head: float32 [n].
    """

    head: Tensor
    body: Tensor
    log_probability: Tensor


class Generator(nn.Module):
    """An LSTM that reads the head and what it has written so far, and writes the next relation or stops.

    Args:
        relations: Number of relations, the reverse ones included.
        dimension: Coordinates of a relation.
        hidden: Hidden units.
        noise: Where its parameters are drawn from, and are: one run.

    Example:
        >>> noise = RandomStreams([0], "cpu")
        >>> generator = Generator(relations=4, dimension=3, hidden=5, noise=noise)
        >>> best = generator.beam_search(torch.tensor([0, 3]), each=2, length=2)
        >>> best.head.tolist(), best.body.shape
        ([0, 0, 3, 3], torch.Size([4, 2]))
    """

    def __init__(self, relations: int, dimension: int, hidden: int, noise: RandomStreams) -> None:
        super().__init__()
        self.stop = relations
        self.token = nn.Embedding(relations + 1, dimension, device="meta").to_empty(device=noise.device)
        self.head = nn.Embedding(relations, dimension, device="meta").to_empty(device=noise.device)
        self.memory = nn.LSTM(2 * dimension, hidden, batch_first=True, device="meta").to_empty(device=noise.device)
        self.output = nn.Linear(hidden, relations + 1, device="meta").to_empty(device=noise.device)
        with torch.no_grad():
            for parameter in self.parameters():
                drawn = noise.uniform(tuple(parameter.shape))[0]
                parameter.copy_((2 * drawn - 1) / hidden**0.5)

    def log_probability(self, head: Tensor, body: Tensor) -> Tensor:
        """How likely each body [n, length] is, given the head [n]; differentiable."""
        stop = torch.full_like(body[:, :1], self.stop)
        written = torch.where(body < 0, self.stop, body)
        read, wanted = torch.cat([stop, written], 1), torch.cat([written, stop], 1)
        outputs, _ = self.memory(self._inputs(head[:, None].expand_as(read), read))
        each = self.output(outputs).log_softmax(-1).gather(2, wanted[..., None])[..., 0]
        # What follows the first stop is certain.
        counted = torch.cat([torch.ones_like(body[:, :1], dtype=torch.bool), body >= 0], 1)
        total: Tensor = (each * counted).sum(1)
        return total

    @torch.no_grad()
    def drawn(self, heads: Tensor, each: int, length: int, noise: RandomStreams) -> GeneratedRules:
        """Bodies drawn for each head as often as the network finds them likely; equal ones and empty ones once."""
        head = heads.repeat_interleave(each)
        body = torch.full((len(head), length), -1, dtype=torch.int64, device=head.device)
        token, state = torch.full_like(head, self.stop), None
        total = torch.zeros(len(head), device=head.device)
        going = torch.ones_like(head, dtype=torch.bool)
        for place in range(length + 1):
            likely, state = self._next(head, token, state)
            if place < length:
                # The largest of perturbed log probabilities is a draw (Gumbel).
                uniform = noise.uniform(tuple(likely.shape))[0].clamp_(1e-10, 1 - 1e-7)
                token = (likely - (-uniform.log()).log()).argmax(-1)
            else:
                token = torch.full_like(token, self.stop)
            total += torch.where(going, likely.gather(1, token[:, None])[:, 0], 0)
            going &= token != self.stop
            if place < length:
                body[:, place] = torch.where(going, token, -1)
        return _distinct(head, body, total)

    @torch.no_grad()
    def best(self, heads: Tensor, each: int, length: int) -> GeneratedRules:
        """The likeliest bodies of each head: a beam search ``each`` wide over all heads at once."""
        at_once = max(1, _AT_ONCE // (each * (self.stop + 1)))
        parts = [self._beams(some, each, length) for some in torch.split(heads, at_once)]
        joined = (torch.cat([getattr(part, name) for part in parts]) for name in ("head", "body", "log_probability"))
        return GeneratedRules(*joined)

    def _beams(self, heads: Tensor, each: int, length: int) -> GeneratedRules:
        count, words = len(heads), self.stop + 1
        total = torch.zeros(count, 1, device=heads.device)
        body = torch.full((count, 1, length), -1, dtype=torch.int64, device=heads.device)
        token = torch.full((count, 1), self.stop, device=heads.device)
        over = torch.zeros(count, 1, dtype=torch.bool, device=heads.device)
        state: tuple[Tensor, Tensor] | None = None
        for place in range(length + 1):
            width = total.shape[1]
            flat, state = self._next(heads.repeat_interleave(width), token.flatten(), state)
            likely = flat.view(count, width, words)
            if place == length:
                total = total + torch.where(over, 0, likely[..., self.stop])
                break
            # A body that is over goes on in one way only.
            ended = torch.full_like(likely, -torch.inf)
            ended[..., self.stop] = 0
            grown = (total[..., None] + torch.where(over[..., None], ended, likely)).flatten(1)
            total, chosen = grown.topk(min(each, grown.shape[1]), dim=1)
            parent, token = chosen // words, chosen % words
            over = over.gather(1, parent) | (token == self.stop)
            body = body.gather(1, parent[..., None].expand(-1, -1, length)).clone()
            body[..., place] = torch.where(over, -1, token)
            rows = (parent + torch.arange(count, device=heads.device)[:, None] * width).flatten()
            state = (state[0][:, rows], state[1][:, rows])
        found = torch.isfinite(total) & (body[..., 0] >= 0)
        return GeneratedRules(heads[:, None].expand_as(total)[found], body[found], total[found])

    def _next(
        self, head: Tensor, token: Tensor, state: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs, after = self.memory(self._inputs(head, token)[:, None], state)
        likely: Tensor = self.output(outputs[:, 0]).log_softmax(-1)
        return likely, after

    def _inputs(self, head: Tensor, token: Tensor) -> Tensor:
        return torch.cat([self.token(token), self.head(head)], -1)


@dataclass(frozen=True)
class Fitting:
    """How the generator is taught.

    Attributes:
        steps: Number of steps.
        batch: Rules in a step.
        rate: Size of a step.
    """

    steps: int
    batch: int
    rate: float


def train_generator(
    generator: Generator, head: Tensor, body: Tensor, weight: Tensor, fitting: Fitting, noise: RandomStreams
) -> float:
    """Steps of cross entropy on rules that count by weight; gives the mean loss of the last quarter of them.

    Rules are drawn in proportion to their weights: in expectation that is the weighted cross entropy.
    """
    if not fitting.steps or not len(head) or not float(weight.sum()):
        return 0.0
    optimiser = torch.optim.Adam(generator.parameters(), lr=fitting.rate)
    losses = []
    for _ in range(fitting.steps):
        chosen = torch.multinomial(weight, fitting.batch, replacement=True, generator=noise.generators[0])
        loss = -generator.log_probability(head[chosen], body[chosen]).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.detach())
    return float(torch.stack(losses[-max(1, len(losses) // 4) :]).mean())


def _distinct(head: Tensor, body: Tensor, log_probability: Tensor) -> GeneratedRules:
    """Each rule once, without those of no relation at all."""
    written = body[:, 0] >= 0
    head, body, log_probability = head[written], body[written], log_probability[written]
    rules, place = torch.unique(torch.cat([head[:, None], body], 1), dim=0, return_inverse=True)
    first = torch.full((len(rules),), len(head), dtype=torch.int64, device=head.device)
    first.scatter_reduce_(0, place, torch.arange(len(head), device=head.device), "amin")
    return GeneratedRules(rules[:, 0], rules[:, 1:], log_probability[first])
