"""Scorers that hand out scores: what they may give, what is refused, and how they are asked."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict import rank
from kgprobe.resources import Resources
from ranking import Matrix, Rows, brute_force, graph_of, rows_of

GRAPH = graph_of(seed=11)

ENTITIES = GRAPH.num_entities

DEVICES = ["cpu", "torch:cpu"]

PEOPLE = KnowledgeGraph.from_triples(
    train=[[0, 0, 1]],
    test=[[0, 0, 2], [1, 1, 0], [1, 0, 0]],
    entity_labels=["Ada", "Bob", "Cyd"],
    relation_labels=["knows", "likes"],
)


def ranks_of(model: Any, device: str) -> Rows:
    return rows_of(rank(model, GRAPH, resources=Resources(device=device)))


def small_scores(seed: int = 0) -> NDArray[np.int64]:
    shape = (2, ENTITIES, GRAPH.num_relations, ENTITIES)
    return np.random.default_rng(seed).integers(0, 9, shape)


def as_given(convert: Callable[[NDArray[Any]], Any], scores: NDArray[Any]) -> Any:
    """A scorer that gives its scores in some form."""
    return lambda side, given, relation: convert(scores[int(side == "tail"), given, relation])


FORMS: dict[str, Callable[[NDArray[Any]], Any]] = {
    **{name: (lambda x, name=name: x.astype(name)) for name in ("f2", "f4", "f8", ">f4", "i1", "u1", "i4", "i8", "u8")},
    "list": lambda x: x.tolist(),
    "rows": lambda x: list(x.astype(float)),
    "columns first": lambda x: np.asfortranarray(x, dtype=np.float32),
    "part of another": lambda x: np.repeat(x, 2, axis=1).astype(np.float32)[:, ::2],
    "tensor": lambda x: torch.tensor(x, dtype=torch.float32),
    "short tensor": lambda x: torch.tensor(x, dtype=torch.bfloat16),
    "half tensor": lambda x: torch.tensor(x, dtype=torch.float16),
    "double tensor": lambda x: torch.tensor(x, dtype=torch.float64),
    "whole tensor": lambda x: torch.tensor(x),
    "tensor with a gradient": lambda x: torch.tensor(x, dtype=torch.float32, requires_grad=True) * 1.0,
    "transposed tensor": lambda x: torch.tensor(x.T, dtype=torch.float32).T,
    "rows of tensors": lambda x: [torch.tensor(row) for row in x],
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", FORMS)
def test_scores_come_in_many_forms(form: str, device: str) -> None:
    scores = small_scores()
    found = ranks_of(as_given(FORMS[form], scores), device)
    assert found == brute_force(Matrix(scores), GRAPH)


@pytest.mark.parametrize("device", DEVICES)
def test_a_tensor_whose_sign_is_not_resolved(device: str) -> None:
    """The imaginary part of a conjugate, as ComplEx may have it, only remembers that it is negative."""
    scores = small_scores()
    given = as_given(lambda x: (1j * torch.tensor(-x, dtype=torch.float32)).conj().imag, scores)
    assert ranks_of(given, device) == brute_force(Matrix(scores), GRAPH)


@pytest.mark.parametrize("device", DEVICES)
def test_double_precision_is_kept(device: str) -> None:
    scores = 1 + small_scores() * 2.0**-50
    for convert in (np.asarray, torch.tensor):
        assert ranks_of(as_given(convert, scores), device) == brute_force(Matrix(scores), GRAPH)


RARE: dict[str, Callable[[NDArray[Any]], Any]] = {
    "beyond 2^53": lambda x: 2**53 + x,
    "beyond 2^53, tensor": lambda x: torch.tensor(2**53 + x),
    "beyond -2^53": lambda x: x - 2**53 - 20,
    "beyond 2^63": lambda x: np.uint64(2**63) + x.astype(np.uint64),
    "long double": lambda x: 1 + x * np.longdouble(2) ** -60,
    "uint16 tensor": lambda x: torch.tensor(x).to(torch.uint16),
    "uint64 tensor": lambda x: torch.tensor(x).to(torch.uint64),
    "float8 tensor": lambda x: torch.tensor(x, dtype=torch.float32).to(torch.float8_e4m3fn),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", RARE)
def test_scores_are_told_apart_or_refused(form: str, device: str) -> None:
    scores = small_scores()
    try:
        found = ranks_of(as_given(RARE[form], scores), device)
    except DataError:
        return
    assert found == brute_force(Matrix(scores), GRAPH)


@pytest.mark.parametrize("device", DEVICES)
def test_a_constant_scorer_gives_the_middle_rank(device: str) -> None:
    for constant in (0.0, -np.inf, np.inf, 7):
        model = as_given(lambda x, constant=constant: np.full(x.shape, constant), small_scores())
        table = rank(model, GRAPH, resources=Resources(device=device))
        assert table.rank.tolist() == ((table.candidates + 1) / 2).tolist()
        assert table.ties.tolist() == (table.candidates - 1).tolist()


@pytest.mark.parametrize("device", DEVICES)
def test_infinite_scores_are_values(device: str) -> None:
    scores = np.array([-np.inf, -1.0, 0.0, np.inf])[small_scores() % 4]
    assert ranks_of(as_given(np.asarray, scores), device) == brute_force(Matrix(scores), GRAPH)


BROKEN: dict[str, Callable[[NDArray[Any]], Any]] = {
    "complex": lambda x: x.astype(complex),
    "complex tensor": lambda x: torch.tensor(x, dtype=torch.complex64),
    "objects": lambda x: x.astype(object),
    "text": lambda x: x.astype(str),
    "dates": lambda x: x.astype("M8[s]"),
    "nothing": lambda x: None,
    "a number": lambda x: 1.0,
    "no rows": lambda x: x[:0],
    "a row less": lambda x: x[1:],
    "a column less": lambda x: x[:, 1:],
    "a column more": lambda x: np.pad(x, ((0, 0), (0, 1))),
    "one row": lambda x: x[0],
    "three axes": lambda x: x[:, :, None],
    "turned": lambda x: x.T,
    "a tensor of one column": lambda x: torch.zeros((len(x), 1)),
    "truth values": lambda x: x > 3,
    "truth values of torch": lambda x: torch.tensor(x > 3),
    "rows of different lengths": lambda x: [row[: len(row) - (i == 0)].tolist() for i, row in enumerate(x)],
    "sparse": lambda x: sparse.csr_array(x.astype(float)),
    "sparse tensor": lambda x: torch.tensor(x, dtype=torch.float32).to_sparse(),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", BROKEN)
def test_what_is_no_matrix_of_scores_is_refused(form: str, device: str) -> None:
    with pytest.raises(DataError, match="the model's scores cannot be used") as error:
        rank(as_given(BROKEN[form], small_scores()), GRAPH, resources=Resources(device=device))
    assert f"{ENTITIES}]" in error.value.problems[0]


@pytest.mark.parametrize("device", DEVICES)
def test_nan_stops_the_run_and_names_the_queries(device: str) -> None:
    def broken(side: str, given: Any, relation: Any) -> Any:
        scores = np.zeros((len(given), 3))
        scores[(given == 1) & (relation == 1), 2] = np.nan
        scores[(given == 0) & (side == "head"), 0] = np.nan
        return scores

    for batch in (None, 1, 2):
        with pytest.raises(DataError, match="scores are NaN, so nothing can be ranked") as error:
            rank(broken, PEOPLE, resources=Resources(device=device, batch=batch))
        assert error.value.problems == ["query (Bob, likes, ?)"]
    with pytest.raises(DataError, match="scores are NaN") as error:
        rank(broken, PEOPLE, sides="head", resources=Resources(device=device, batch=2))
    assert error.value.problems == ["query (?, knows, Ada)"]
    with pytest.raises(DataError, match="scores are NaN") as error:
        rank(broken, PEOPLE, sides="head", resources=Resources(device=device))
    assert error.value.problems == ["query (?, knows, Ada)", "query (?, likes, Ada)"]
    assert "model" in error.value.remedy


def test_of_many_queries_that_are_nan_the_first_are_named() -> None:
    with pytest.raises(DataError, match="scores are NaN") as error:
        rank(as_given(lambda x: np.full(x.shape, np.nan), small_scores()), GRAPH, sides="tail")
    queries = sorted({(relation, head) for head, relation, _ in GRAPH.triples("test").tolist()})
    assert error.value.problems[:8] == [f"query ({head}, {relation}, ?)" for relation, head in queries[:8]]
    assert error.value.problems[8:] == [f"and {len(queries) - 8} more found so far"]


def test_a_scorers_matrix_is_never_changed() -> None:
    for cached in (np.zeros((40, ENTITIES)), np.zeros((40, ENTITIES), dtype=np.float32), torch.zeros((40, ENTITIES))):
        for device in DEVICES:
            model = lambda side, given, relation, cached=cached: cached[: len(given)]  # noqa: E731
            table = rank(model, GRAPH, resources=Resources(device=device))
            assert table.rank.tolist() == ((table.candidates + 1) / 2).tolist()
            assert not np.asarray(cached).any()
    read_only = np.zeros((40, ENTITIES))
    read_only.flags.writeable = False
    for device in DEVICES:
        rank(lambda side, given, relation: read_only[: len(given)], GRAPH, resources=Resources(device=device))


class Asked:
    """A scorer that remembers what it was asked."""

    def __init__(self, bytes_per_query: int | None = None) -> None:
        self.calls: list[tuple[str, NDArray[Any], NDArray[Any]]] = []
        if bytes_per_query is not None:
            self.bytes_per_query = bytes_per_query

    def score(self, side: str, given: Any, relation: Any) -> Any:
        self.calls.append((side, given, relation))
        return np.zeros((len(given), ENTITIES))


@pytest.mark.parametrize("batch", [None, 1, 3, 1000])
@pytest.mark.parametrize("candidates", ["all", "train"])
def test_each_query_is_asked_once(batch: int | None, candidates: str) -> None:
    asked = Asked()
    rank(asked, GRAPH, candidates=candidates, resources=Resources(batch=batch))
    found = [
        (s, g, r) for s, given, relation in asked.calls for g, r in zip(given.tolist(), relation.tolist(), strict=True)
    ]
    test = GRAPH.triples("test").tolist()
    expected = {("tail", h, r) for h, r, _ in test} | {("head", t, r) for _, r, t in test}
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert all(1 <= len(given) <= (batch or 512) for _, given, _ in asked.calls)
    assert all(given.dtype == relation.dtype == np.int64 for _, given, relation in asked.calls)


def largest(asked: Asked, resources: Resources) -> int:
    rank(asked, GRAPH, resources=resources)
    return max(len(given) for _, given, _ in asked.calls)


def test_memory_limits_how_many_queries_are_asked_at_once() -> None:
    everything = largest(Asked(), Resources())
    assert everything > 5
    megabyte = 1 << 20
    assert largest(Asked(megabyte // 4 + 1), Resources(memory=megabyte)) == 3
    assert largest(Asked(megabyte // 4 - 100 * ENTITIES), Resources(memory=megabyte)) == 4
    assert largest(Asked(megabyte // 4), Resources(memory=2 * megabyte)) == 7
    assert largest(Asked(10 * megabyte), Resources(memory=megabyte)) == 1
    assert largest(Asked(10 * megabyte), Resources(memory=megabyte, batch=2)) == 2
    assert largest(Asked(0), Resources(memory=megabyte)) == everything


def test_the_scores_of_many_entities_take_memory_too() -> None:
    entities = 20_000
    graph = KnowledgeGraph.from_triples(
        train=[[0, 0, 1]], test=[[i, 0, i + 1] for i in range(40)], num_entities=entities
    )
    sizes: list[int] = []

    def score(side: str, given: Any, relation: Any) -> Any:
        sizes.append(len(given))
        return np.zeros((len(given), entities))

    rank(score, graph, resources=Resources(memory=1 << 20))
    assert max(sizes) * entities * 8 <= 1 << 20
    assert sum(sizes) == 80


def test_an_error_of_the_scorer_is_its_own() -> None:
    def fails(side: str, given: Any, relation: Any) -> Any:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        rank(fails, GRAPH)
