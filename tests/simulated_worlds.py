"""Simulated worlds for the estimator of closed-world scores, where the closed ranks are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit

from kgprobe.ranks import Ranks, RanksInfo, WorldInfo

Floats = NDArray[np.float64]

Flags = NDArray[np.bool_]

Ints = NDArray[np.int64]

ANSWERS: Mapping[str, Callable[[np.random.Generator, int], Ints]] = {
    "family": lambda rng, queries: rng.integers(11, 50, queries),
    "few": lambda rng, queries: 1 + rng.geometric(0.25, queries),
    "mixed": lambda rng, queries: np.maximum(1, np.round(np.exp(rng.normal(1.5, 1.2, queries)))).astype(np.int64),
    "thirty": lambda rng, queries: np.full(queries, 30),
}

"""How many true answers queries have: as those tested in the family tree, few, very different numbers, all alike."""


class Scored(Protocol):
    """A model, as far as it scores true and false answers."""

    def true(self, rng: np.random.Generator, query: Ints, size: Ints) -> Floats:
        """A score of each true answer, given its query and, for every query, the number of true answers."""

    def false(self, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        """Scores of the false answers of every query."""


@dataclass(frozen=True, eq=False)
class Learned:
    """Learned answers stand before all false ones, in any order; the others are like false ones.

    Attributes:
        share: The share of the answers that is learned; a number for each query where it differs between them.
    """

    share: float | Floats

    def true(self, rng: np.random.Generator, query: Ints, size: Ints) -> Floats:
        learned = rng.random(len(query)) < np.broadcast_to(self.share, len(size))[query]
        return rng.random(len(query)) + learned

    def false(self, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        return rng.random(shape)


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Scores are normal, those of true answers with a higher mean.

    Attributes:
        mean: By how much they are higher.
        between: How much that differs between queries.
        hardness: How much of it is lost for every factor of e in the number of answers.
    """

    mean: float
    between: float = 0.0
    hardness: float = 0.0

    def true(self, rng: np.random.Generator, query: Ints, size: Ints) -> Floats:
        means = self.mean + self.between * rng.normal(size=len(size)) - self.hardness * np.log(size)
        return rng.normal(size=len(query)) + means[query]

    def false(self, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        return rng.normal(size=shape)


@dataclass(frozen=True, eq=False)
class Scores:
    """What a model says: the score of each hard answer, and how many false ones stand before it."""

    score: Floats
    false: Ints


@dataclass(frozen=True, eq=False)
class Simulated:
    """The same answers ranked in the open and in the closed world."""

    open: Ranks
    closed: Ranks


@dataclass(frozen=True, eq=False)
class Hard:
    """The answers that training has not seen: those of tail queries, one relation.

    Attributes:
        query: The query of each of them.
        size: For every query, how many true answers it has, seen ones included.
        share: The share of them that is missing, on average.
        false: How many false answers each query has.
        info: What rank tables say of themselves.
    """

    query: Ints
    size: Ints
    share: float
    false: int
    info: RanksInfo

    @classmethod
    def draw(
        cls,
        rng: np.random.Generator,
        size: Ints,
        rate: float,
        *,
        train: float = 0.7,
        least: int = 0,
        false: int = 1000,
    ) -> Hard:
        """Draw them: each answer is missing with probability ``rate``, a known one seen with probability ``train``.

        Args:
            rng: Draws them.
            size: For every query, how many true answers it has.
            rate: The missing rate.
            train: The share of the known facts that is trained on.
            least: Queries with fewer hard answers are left out, as in the published test.
            false: How many false answers each query has.
        """
        query = np.repeat(np.arange(len(size)), size)
        query = query[rng.random(len(query)) >= (1 - rate) * train]
        query = query[np.bincount(query, minlength=len(size))[query] >= least]
        world = WorldInfo("open", sides="tail", train_share=train) if least else None
        share = rate / (rate + (1 - rate) * (1 - train))
        return cls(query, size, share, false, RanksInfo(split="test", filtered=("train", "test"), world=world))

    @property
    def entities(self) -> int:
        """So many that the candidates of a query tell how many of its answers are known."""
        return self.false + int(self.size.max())

    def score(self, rng: np.random.Generator, model: Scored) -> Scores:
        """Have a model score all answers."""
        score, false = model.true(rng, self.query, self.size), model.false(rng, (len(self.size), self.false))
        apart = 4 * max(float(np.abs(score).max()), float(np.abs(false).max()))
        ordered = np.sort(false, axis=1) + apart * np.arange(len(self.size))[:, None]
        upto = np.searchsorted(ordered.ravel(), score + apart * self.query, side="right")
        return Scores(score, (self.query + 1) * self.false - upto)

    def hide(self, rng: np.random.Generator, scores: Scores | None = None, odds: float = 1.0) -> Flags:
        """Which answers are missing: any, or by these odds rather those that a model ranks last within their query."""
        if scores is None:
            return rng.random(len(self.query)) < self.share
        order = np.lexsort((-scores.score, self.query))
        place = np.empty(len(order))
        place[order] = (_before(np.ones(len(order)), self.query[order]) + 0.5) / np.bincount(self.query)[self.query]
        lean = np.log(odds) * (place - 0.5)
        level = (
            brentq(lambda level: expit(level + lean).mean() - self.share, -99, 99) if odds != 1 else logit(self.share)
        )
        return rng.random(len(order)) < expit(level + lean)

    def rank(self, scores: Scores, missing: Flags) -> Simulated:
        """Rank the known answers while missing ones pass for false, and all of them in the closed world."""
        queries = len(self.size)
        order = np.lexsort((-scores.score, self.query))
        before = np.empty(len(order), dtype=np.int64)
        before[order] = _before(missing[order], self.query[order])
        hidden = np.bincount(self.query[missing], minlength=queries)[self.query]
        surplus = int(self.size.max()) - self.size[self.query]
        closed_candidates = self.false + 1 + surplus
        known = ~missing
        return Simulated(
            self._table(known, 1 + scores.false + before, closed_candidates + hidden),
            self._table(np.ones(len(order), dtype=bool), 1 + scores.false, closed_candidates),
        )

    def _table(self, rows: Flags, rank: Ints, candidates: Ints) -> Ranks:
        number = int(rows.sum())
        target = np.arange(len(rows))
        popularity = np.exp(np.sin(target) - 4)  # depends on the answer alone, and on nothing that is estimated
        return Ranks.from_columns(
            head=self.query[rows],
            relation=np.zeros(number, dtype=np.int64),
            tail=target[rows],
            side=["tail"] * number,
            rank=rank[rows],
            candidates=candidates[rows],
            entity_popularity=popularity[rows],
            relation_popularity=np.ones(number),
            info=self.info,
        )


def simulate(
    seed: int,
    model: Scored,
    rate: float,
    *,
    kind: str = "family",
    queries: int = 300,
    odds: float = 1.0,
    least: int = 0,
) -> tuple[Simulated, int]:
    """One model in one world, and the number of entities."""
    rng = np.random.default_rng(seed)
    hard = Hard.draw(rng, ANSWERS[kind](rng, queries), rate, least=least)
    scores = hard.score(rng, model)
    return hard.rank(scores, hard.hide(rng, scores, odds)), hard.entities


def simulate_models(
    seed: int, models: Sequence[Scored], rate: float, size: Ints | None = None, queries: int = 40
) -> tuple[list[Simulated], int]:
    """Several models in one world, of queries as in the family tree unless their answers are counted; its entities."""
    rng = np.random.default_rng(seed)
    hard = Hard.draw(rng, ANSWERS["family"](rng, queries) if size is None else size, rate)
    missing = hard.hide(rng)
    return [hard.rank(hard.score(rng, model), missing) for model in models], hard.entities


def _before(flags: NDArray[Any], query: Ints) -> Ints:
    """How many rows of the same query stand before each row that have the flag; rows of a query stand together."""
    upto = np.cumsum(flags) - flags
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    return np.asarray(upto - np.repeat(upto[starts], np.diff(starts, append=len(query))), dtype=np.int64)
