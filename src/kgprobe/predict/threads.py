"""How many threads the libraries underneath may use."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from typing import Any


def one_thread_of_blas() -> AbstractContextManager[Any]:
    """A context in which matrix products run in the thread that asks for them.

    Threads of BLAS beside the engine's own would only be in the way. In a source tree without installation the
    library that stops them may be missing: that costs time, nothing else.

    Example:
        >>> with one_thread_of_blas():
        ...     pass
    """
    if find_spec("threadpoolctl") is None:
        return nullcontext()
    from threadpoolctl import threadpool_limits

    context: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return context
