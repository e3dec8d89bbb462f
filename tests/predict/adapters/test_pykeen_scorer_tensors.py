"""Embeddings of PyKEEN models as tensors, against those as arrays."""

import numpy as np
import pytest
import torch
from pykeen.nn.modules import TuckERInteraction

from kgprobe.predict import rank
from kgprobe.predict.adapters import pykeen_scorer
from kgprobe.predict.adapters.pykeen_scorer import PykeenEmbeddings, PykeenScores, embedding_scorer, scorer_of
from kgprobe.resources import Resources
from ranking import graph_of

BY_COORDINATE = {
    "CP": ("CP", {"embedding_dim": 4, "rank": 3}),
    "ComplEx": ("ComplEx", {"embedding_dim": 6}),
    "DistMult": ("DistMult", {"embedding_dim": 7}),
    "RotatE": ("RotatE", {"embedding_dim": 6}),
    "SimplE": ("SimplE", {"embedding_dim": 6}),
    "TransE-L1": ("TransE", {"embedding_dim": 7, "scoring_fct_norm": 1}),
    "TransE-L2": ("TransE", {"embedding_dim": 7, "scoring_fct_norm": 2}),
}

BY_SUMS = {
    "RESCAL": ("RESCAL", {"embedding_dim": 6}),
    "TuckER": ("TuckER", {"embedding_dim": 6}),
    "TuckER-narrow": ("TuckER", {"embedding_dim": 6, "relation_dim": 3}),
    "TuckER-plain": ("TuckER", {"embedding_dim": 6, "apply_batch_normalization": False}),
}

CASES = BY_COORDINATE | BY_SUMS

ENTITIES, RELATIONS = 23, 5

GRAPH = graph_of(seed=2, entities=ENTITIES, relations=RELATIONS)

GIVEN, RELATION = np.divmod(np.arange(ENTITIES * RELATIONS), RELATIONS)

sides = pytest.mark.parametrize("side", ["head", "tail"])
inverses = pytest.mark.parametrize("inverse", [False, True], ids=["", "inverse"])
permutations = pytest.mark.parametrize("permuted", [False, True], ids=["", "permuted"])


def some_ids(permuted):
    draw = np.random.default_rng(5)
    return (draw.permutation(ENTITIES), draw.permutation(RELATIONS)) if permuted else None


def both(model, ids=None):
    """The scorer with arrays, and that with tensors."""
    return [embedding_scorer(model, ids, tensors=tensors) for tensors in (False, True)]


def as_array(tensor):
    assert isinstance(tensor, torch.Tensor)
    assert tensor.dtype == torch.float32
    assert tensor.is_contiguous()
    assert not tensor.requires_grad
    return tensor.numpy()


def same_bits(array, tensor):
    assert array.dtype == np.float32
    assert array.shape == tensor.shape
    assert array.tobytes() == as_array(tensor).tobytes()


def nearly_same(array, tensor):
    """At most one unit in the last place apart."""
    np.testing.assert_array_max_ulp(array, as_array(tensor), maxulp=1)


@sides
@inverses
@permutations
@pytest.mark.parametrize("case", CASES)
def test_tensors_are_what_the_arrays_are(case, inverse, side, permuted, make):
    name, settings = CASES[case]
    arrays, tensors = both(make(name, inverse=inverse, **settings), some_ids(permuted))
    assert tensors.similarity == arrays.similarity
    same_bits(arrays.candidates(side), tensors.candidates(side))
    found = [scorer.encode_queries(side, GIVEN, RELATION) for scorer in (arrays, tensors)]
    (same_bits if case in BY_COORDINATE else nearly_same)(*found)
    assert tensors.encode_queries(side, GIVEN[:0], RELATION[:0]).shape == (0, found[0].shape[1])


@sides
@pytest.mark.parametrize("size", [1e-22, 3e19])
@pytest.mark.parametrize("case", BY_COORDINATE)
def test_very_small_and_very_large_numbers(case, size, side, make):
    """Products below the smallest normal number, and above the largest."""
    name, settings = CASES[case]
    model = make(name, **settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= size
    arrays, tensors = both(model)
    same_bits(arrays.candidates(side), tensors.candidates(side))
    same_bits(*(scorer.encode_queries(side, GIVEN, RELATION) for scorer in (arrays, tensors)))


@inverses
@permutations
@pytest.mark.parametrize("case", CASES)
def test_ranks(case, inverse, permuted, make):
    name, settings = CASES[case]
    scorers = both(make(name, inverse=inverse, **settings), some_ids(permuted))
    expected, found = (rank(scorer, GRAPH, name=case).to_arrow() for scorer in scorers)
    assert found.equals(expected, check_metadata=True)


@sides
@pytest.mark.parametrize("case", BY_SUMS)
def test_few_matrices_are_gathered_at_a_time(case, side, make, monkeypatch):
    name, settings = CASES[case]
    arrays, tensors = both(make(name, **settings))
    multiply, gathered = torch.bmm, []

    def recorded(rows, matrices):
        gathered.append(matrices.nbytes)
        return multiply(rows, matrices)

    monkeypatch.setattr(torch, "bmm", recorded)
    whole = tensors.encode_queries(side, GIVEN, RELATION)
    most = 7 * 6 * 6 * 8
    monkeypatch.setattr(pykeen_scorer, "_GATHERED_BYTES", most + 1)
    nearly_same(arrays.encode_queries(side, GIVEN, RELATION), tensors.encode_queries(side, GIVEN, RELATION))
    assert max(gathered[1:]) == most
    assert sum(gathered[1:]) == gathered[0]
    monkeypatch.setattr(pykeen_scorer, "_GATHERED_BYTES", 1)
    nearly_same(whole.numpy(), tensors.encode_queries(side, GIVEN, RELATION))


def test_many_large_relation_matrices_are_not_kept(make, monkeypatch):
    model = make("TuckER", embedding_dim=6)
    monkeypatch.setattr(pykeen_scorer, "MOST_MATRIX_BYTES", model.num_relations * 6 * 6 * 8 - 1)
    assert embedding_scorer(model, tensors=True) is None


@pytest.mark.parametrize("case", CASES)
def test_they_are_those_of_the_moment_when_the_scorer_is_made(case, make):
    name, settings = CASES[case]
    model = make(name, **settings)
    scorer = embedding_scorer(model, tensors=True)

    def embeddings():
        return [scorer.candidates("head"), scorer.candidates("tail"), scorer.encode_queries("head", GIVEN, RELATION)]

    before = [values.clone() for values in embeddings()]
    with torch.no_grad():
        for tensor in model.state_dict().values():
            tensor.fill_(3)
    assert all(map(torch.equal, embeddings(), before))


@pytest.mark.parametrize("kind", [np.int32, np.uint8, np.int64])
def test_ids_of_any_kind(kind, make):
    scorer = embedding_scorer(make("TransE", embedding_dim=4), tensors=True)
    given, relation = GIVEN.astype(kind)[::-1], RELATION.astype(kind)[::-1]
    given.setflags(write=False)
    expected = scorer.encode_queries("tail", GIVEN, RELATION).flip(0)
    assert torch.equal(scorer.encode_queries("tail", given, relation), expected)


@sides
@inverses
@permutations
@pytest.mark.parametrize("case", CASES)
def test_everything_stays_on_the_device_of_the_model(case, inverse, side, permuted, make):
    """Tensors of the device "meta" have no numbers: any copy to the host fails."""
    name, settings = CASES[case]
    model = make(name, inverse=inverse, **settings)
    here, there = scorer_of(model), scorer_of(model.to("meta"), some_ids(permuted))
    assert isinstance(there, PykeenEmbeddings)
    pairs = [
        (here.candidates(side), there.candidates(side)),
        (here.encode_queries(side, GIVEN, RELATION), there.encode_queries(side, GIVEN, RELATION)),
    ]
    for array, tensor in pairs:
        assert isinstance(array, np.ndarray)
        assert (tensor.device.type, tensor.dtype, tensor.shape) == ("meta", torch.float32, array.shape)


def test_no_gradients():
    """Not even where gradients are recorded."""
    numbers = [torch.ones(4, 2)]
    form = pykeen_scorer.embedding_form(TuckERInteraction(embedding_dim=2), numbers, numbers)
    for side in ("head", "tail"):
        assert not form.encode[side](torch.tensor([3]), torch.tensor([1])).requires_grad


def test_no_exact_embeddings(make):
    assert embedding_scorer(make("TransH", embedding_dim=4), tensors=True) is None
    assert embedding_scorer(make("DistMult", embedding_dim=4).double(), tensors=True) is None
    assert isinstance(scorer_of(make("DistMult", embedding_dim=4).double().to("meta")), PykeenScores)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_model_on_a_gpu(device, make):
    model = make("ComplEx", embedding_dim=6)
    expected = rank(model, GRAPH).to_arrow()
    model.to("cuda")
    scorer = scorer_of(model)
    assert scorer.candidates("tail").is_cuda
    assert scorer.encode_queries("tail", GIVEN, RELATION).is_cuda
    assert rank(model, GRAPH, resources=Resources(device)).to_arrow().equals(expected, check_metadata=True)
