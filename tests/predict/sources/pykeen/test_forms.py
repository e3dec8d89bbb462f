"""Vectors of PyKEEN's interactions, against the interactions themselves in double precision."""

import copy

import numpy as np
import pytest
import torch
from pykeen.nn.modules import ComplExInteraction, DistMultInteraction, TransEInteraction, TuckERInteraction

from kgprobe.predict.similarity import Dot, GroupNorm
from kgprobe.predict.sources.pykeen import forms, scorer_of
from kgprobe.predict.sources.pykeen.adapter import PykeenVectors

CASES = {
    "CP": ("CP", {"embedding_dim": 4, "rank": 3}, Dot()),
    "ComplEx": ("ComplEx", {"embedding_dim": 6}, Dot()),
    "DistMult": ("DistMult", {"embedding_dim": 7}, Dot()),
    "RESCAL": ("RESCAL", {"embedding_dim": 6}, Dot()),
    "RotatE": ("RotatE", {"embedding_dim": 6}, GroupNorm(size=None)),
    "SimplE": ("SimplE", {"embedding_dim": 6}, Dot()),
    "TransE-L1": ("TransE", {"embedding_dim": 7, "scoring_fct_norm": 1}, GroupNorm(size=1)),
    "TransE-L1-power": ("TransE", {"embedding_dim": 7, "power_norm": True}, GroupNorm(size=1)),
    "TransE-L2": ("TransE", {"embedding_dim": 7, "scoring_fct_norm": 2}, GroupNorm(size=None)),
    "TuckER": ("TuckER", {"embedding_dim": 6}, Dot()),
    "TuckER-narrow": ("TuckER", {"embedding_dim": 6, "relation_dim": 3}, Dot()),
    "TuckER-plain": ("TuckER", {"embedding_dim": 6, "apply_batch_normalization": False}, Dot()),
}
UNIT = 2.0**-24


@pytest.fixture(params=[False, True], ids=["", "inverse"])
def inverse(request):
    return request.param


@pytest.fixture(params=CASES)
def model(request, make, inverse):
    name, settings, _ = CASES[request.param]
    return make(name, inverse=inverse, **settings)


def every_query(model):
    given, relation = np.divmod(np.arange(model.num_entities * model.num_real_relations), model.num_real_relations)
    return given, relation


def exact_scores(model, side, given, relation):
    """The model's own scores, in double precision."""
    precise = copy.deepcopy(model).double()
    with torch.no_grad():
        if side == "tail":
            return precise.predict_t(torch.tensor(np.stack([given, relation], axis=1))).numpy()
        return precise.predict_h(torch.tensor(np.stack([relation, given], axis=1))).numpy()


def compared(similarity, queries, candidates):
    """Scores of vectors in double precision, and how large the numbers are that go into each."""
    q, e = queries.astype(float)[:, None], candidates.astype(float)[None]
    if similarity == Dot():
        return (q * e).sum(axis=2), (np.abs(q) * np.abs(e)).sum(axis=2)
    size = (np.abs(q) + np.abs(e)).sum(axis=2)
    if similarity.size == 1:
        return -np.abs(q - e).sum(axis=2), size
    return -np.sqrt(((q - e) ** 2).sum(axis=2)), size


@pytest.mark.parametrize("side", ["head", "tail"])
def test_vectors_score_as_the_model_does(model, side):
    given, relation = every_query(model)
    scorer = scorer_of(model)
    assert isinstance(scorer, PykeenVectors)
    queries, candidates = scorer.encode_queries(side, given, relation), scorer.candidates(side)
    assert queries.dtype == candidates.dtype == np.float32
    found, size = compared(scorer.similarity, queries, candidates)
    wanted = exact_scores(model, side, given, relation)
    assert np.all(np.abs(found - wanted) <= 2 * UNIT * size)
    # The same queries in PyKEEN's own float32: another oracle, with more noise.
    own = torch.tensor(np.stack([given, relation] if side == "tail" else [relation, given], axis=1))
    with torch.no_grad():
        noisy = (model.predict_t(own) if side == "tail" else model.predict_h(own)).numpy()
    np.testing.assert_allclose(found, noisy, rtol=2e-5, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("case", CASES)
def test_similarity(case, make):
    name, settings, similarity = CASES[case]
    assert scorer_of(make(name, **settings)).similarity == similarity


@pytest.mark.parametrize("side", ["head", "tail"])
def test_a_query_does_not_depend_on_its_batch(model, side):
    scorer = scorer_of(model)
    given, relation = every_query(model)
    whole = scorer.encode_queries(side, given, relation)
    for size in (1, 7):
        parts = [
            scorer.encode_queries(side, given[i : i + size], relation[i : i + size]) for i in range(0, len(given), size)
        ]
        assert np.array_equal(np.concatenate(parts), whole)
    mixed = np.random.default_rng(0).permutation(len(given))
    assert np.array_equal(scorer.encode_queries(side, given[mixed], relation[mixed]), whole[mixed])
    assert scorer.encode_queries(side, given[:0], relation[:0]).shape == (0, whole.shape[1])


@pytest.mark.parametrize("side", ["head", "tail"])
def test_a_wide_core_adds_up_in_the_same_order_in_every_batch(side):
    """To the last bit of float64, where a BLAS changes its mind with the number of rows."""
    rng = np.random.default_rng(0)
    entities, relations = (rng.standard_normal(shape, dtype=np.float32) for shape in ((40, 130), (3, 70)))
    encode = forms.vector_form(TuckERInteraction(130, 70), [entities], [relations]).encode[side]
    given, relation = np.arange(40), np.arange(40) % 3
    whole = encode(given, relation)
    assert whole.dtype == np.float64
    each = [encode(given[i : i + 1], relation[i : i + 1]) for i in range(len(given))]
    assert np.array_equal(np.concatenate(each), whole)


def test_many_large_relation_matrices_are_not_kept(make, monkeypatch):
    model = make("TuckER", embedding_dim=6)
    needed = model.num_relations * 6 * 6 * 8
    monkeypatch.setattr(forms, "MOST_MATRIX_BYTES", needed)
    assert isinstance(scorer_of(model), PykeenVectors)
    monkeypatch.setattr(forms, "MOST_MATRIX_BYTES", needed - 1)
    assert not isinstance(scorer_of(model), PykeenVectors)


class Louder(DistMultInteraction):
    def forward(self, h, r, t):
        return 2 * super().forward(h, r, t)


REAL, COMPLEX = np.ones((4, 2), np.float32), np.ones((4, 2), np.complex64)


@pytest.mark.parametrize(
    ("interaction", "entities", "relations"),
    [
        pytest.param(TransEInteraction(p=3), REAL, REAL, id="another norm"),
        pytest.param(TransEInteraction(p=2, power_norm=True), REAL, REAL, id="squared norm"),
        pytest.param(Louder(), REAL, REAL, id="changed by a subclass"),
        pytest.param(type("DistMultInteraction", (Louder,), {})(), REAL, REAL, id="of the same name"),
        pytest.param(DistMultInteraction(), REAL.astype(np.float64), REAL, id="double entities"),
        pytest.param(DistMultInteraction(), REAL, REAL.astype(np.float16), id="half relations"),
        pytest.param(ComplExInteraction(), REAL, REAL, id="real numbers for ComplEx"),
        pytest.param(DistMultInteraction(), COMPLEX, COMPLEX, id="complex numbers for DistMult"),
    ],
)
def test_nothing_that_is_only_nearly_the_formula(interaction, entities, relations):
    assert forms.vector_form(interaction, [entities], [relations]) is None


def test_the_plain_ones_are_taken():
    assert forms.vector_form(TransEInteraction(p=2), [REAL], [REAL]) is not None
    assert forms.vector_form(ComplExInteraction(), [COMPLEX], [COMPLEX]) is not None
    core = TuckERInteraction(embedding_dim=2)
    assert forms.vector_form(core, [REAL], [REAL]).candidates["head"].shape == (4, 3)
