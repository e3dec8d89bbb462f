import numpy as np
import pytest
from threadpoolctl import threadpool_info

import kgprobe.predict.threads as module
from kgprobe.predict.threads import one_thread_of_blas


def threads_of_blas() -> list[int]:
    np.ones((2, 2)) @ np.ones((2, 2))
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_has_one_thread_for_as_long_as_it_should() -> None:
    before = threads_of_blas()
    assert before
    with one_thread_of_blas():
        assert set(threads_of_blas()) == {1}
    assert threads_of_blas() == before
    with pytest.raises(ZeroDivisionError), one_thread_of_blas():
        _ = 1 / 0
    assert threads_of_blas() == before


def test_without_the_library_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    before = threads_of_blas()
    with one_thread_of_blas():
        assert threads_of_blas() == before
