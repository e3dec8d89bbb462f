"""The true answers of the training queries, on the device that trains."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from kgprobe.graph.sorted_keys import Ints


class TrueAnswers:
    """Which entities answer each pair of what is given and a relation.

    Attributes:
        pairs: Number of distinct pairs.
        pair_of: The pair of each query that the answers were made from: [queries].

    Example:
        >>> given, relation, target = np.array([0, 0, 2]), np.array([0, 0, 0]), np.array([1, 3, 1])
        >>> known = TrueAnswers(given, relation, target, entities=4, device=torch.device("cpu"))
        >>> known.contain(known.pair_of[None], torch.tensor([[[0, 3], [1, 2], [1, 3]]])).tolist()
        [[[False, True], [True, False], [True, False]]]
        >>> known.count(known.pair_of).tolist()
        [2, 2, 1]
        >>> known.rows(known.pair_of[None, :1]).int().tolist()
        [[[0, 1, 0, 1]]]
    """

    def __init__(self, given: Ints, relation: Ints, target: Ints, entities: int, device: torch.device) -> None:
        keys = given.astype(np.int64) * (int(relation.max(initial=0)) + 1) + relation
        distinct, pair = np.unique(keys, return_inverse=True)
        self.pairs, self.entities = len(distinct), entities
        self.pair_of = torch.from_numpy(pair.astype(np.int64)).to(device)
        answers = np.unique(pair.astype(np.int64) * entities + target)
        self._keys = torch.from_numpy(answers).to(device)
        self._counts = torch.from_numpy(np.bincount(answers // entities, minlength=self.pairs)).to(device)

    def count(self, pair: Tensor) -> Tensor:
        """How many entities answer the pairs, of any shape."""
        return self._counts[pair]

    def contain(self, pair: Tensor, entities: Tensor) -> Tensor:
        """Whether the entities [S, B, K] answer the pairs [S, B]."""
        wanted = pair[..., None] * self.entities + entities
        place = torch.searchsorted(self._keys, wanted).clamp_(max=len(self._keys) - 1)
        return self._keys[place] == wanted

    def rows(self, pair: Tensor) -> Tensor:
        """The answers to the pairs [S, B] among all entities: [S, B, N]."""
        packed = self._bits[pair]
        places = torch.arange(8, device=packed.device, dtype=torch.uint8)
        unpacked = (packed[..., None] >> places) & 1
        return unpacked.reshape(*pair.shape, -1)[..., : self.entities].bool()

    @cached_property
    def _bits(self) -> Tensor:
        """One bit for each pair and entity: dense rows without a list of different length for each query."""
        width = -(-self.entities // 8)
        pair, entity = self._keys // self.entities, self._keys % self.entities
        bits = torch.zeros(self.pairs * width, dtype=torch.uint8, device=self._keys.device)
        # Every bit is set once, so adding is the same as setting.
        return bits.index_add_(0, pair * width + entity // 8, (1 << (entity % 8)).to(torch.uint8)).reshape(-1, width)
