"""How much memory a computation of torch takes, found by doing it once on a small scale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def bytes_made(compute: Callable[[], Any]) -> int:
    """The size of all tensors that a computation makes on its way: an upper bound of what it needs at any time.

    Example:
        >>> import torch
        >>> a = torch.zeros(10)
        >>> bytes_made(lambda: (a + 1).sum())
        44
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Tally(TorchDispatchMode):  # type: ignore[no-untyped-call]
        made: int = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            self.made += sum(leaf.nbytes for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor))
            return result

    tally = Tally()  # type: ignore[no-untyped-call]
    with tally:
        compute()
    return tally.made
