"""Vectors of PyKEEN's interactions, against the interactions themselves in double precision."""

import copy
import subprocess
import sys

import numpy as np
import pytest
import torch
from pykeen.models import DistMult, FixedModel, TransE, model_resolver
from pykeen.nn.modules import ComplExInteraction, DistMultInteraction, TransEInteraction, TuckERInteraction
from pykeen.triples import CoreTriplesFactory, KGInfo

from kgprobe.predict.adapters import pykeen_scorer
from kgprobe.predict.adapters.pykeen_scorer import PykeenEmbeddings, PykeenScores, bytes_made, is_pykeen, scorer_of
from kgprobe.predict.scorers import Dot, GroupNorm, Scorer

GIVEN, RELATION = np.array([3, 0, 22, 3]), np.array([1, 4, 0, 1])

FACTS = KGInfo(23, 5, create_inverse_triples=False)


class OwnScores(TransE):
    def score_t(self, *args, **kwargs):
        return -super().score_t(*args, **kwargs)


UNUSUAL = {
    "ConvE": ("ConvE", {"embedding_dim": 8, "output_channels": 2}),
    "QuatE": ("QuatE", {"embedding_dim": 4}),
    "SimplE-clamped": ("SimplE", {"embedding_dim": 4, "clamp_score": 1.0}),
    "TransE-L3": ("TransE", {"embedding_dim": 4, "scoring_fct_norm": 3}),
    "TransE-L2-power": ("TransE", {"embedding_dim": 4, "scoring_fct_norm": 2, "power_norm": True}),
    "TransH": ("TransH", {"embedding_dim": 4}),
    "UM": ("UM", {"embedding_dim": 4}),
}


def asked(model, side):
    """What PyKEEN itself answers, one query at a time."""
    with torch.no_grad():
        if side == "tail":
            rows = [model.predict_t(torch.tensor([[h, r]])) for h, r in zip(GIVEN, RELATION, strict=True)]
        else:
            rows = [model.predict_h(torch.tensor([[r, t]])) for t, r in zip(GIVEN, RELATION, strict=True)]
    return torch.cat(rows)


@pytest.mark.parametrize("side", ["head", "tail"])
@pytest.mark.parametrize("inverse", [False, True], ids=["", "inverse"])
@pytest.mark.parametrize("case", UNUSUAL)
def test_other_models_give_their_own_scores(case, inverse, side, make):
    name, settings = UNUSUAL[case]
    model = make(name, inverse=inverse, **settings)
    scorer = scorer_of(model)
    assert isinstance(scorer, PykeenScores)
    assert isinstance(scorer, Scorer)
    scores = scorer.score(side, GIVEN, RELATION)
    torch.testing.assert_close(scores, asked(model, side))
    assert not scores.requires_grad


def test_a_model_that_changes_how_it_scores():
    model = OwnScores(triples_factory=FACTS, embedding_dim=4, random_seed=0)
    assert isinstance(scorer_of(model), PykeenScores)


def test_a_normaliser_sees_another_shape_when_queries_are_scored():
    """PyKEEN's normaliser works along the second axis, which is the entities in a batch and the vector in a table."""
    model = DistMult(
        triples_factory=FACTS, embedding_dim=4, random_seed=0, entity_representations_kwargs={"normalizer": "normalize"}
    )
    scorer = scorer_of(model)
    assert isinstance(scorer, PykeenScores)
    torch.testing.assert_close(scorer.score("tail", GIVEN, RELATION), asked(model, "tail"))


def test_numbers_of_another_precision(make):
    model = make("DistMult", embedding_dim=4).double()
    scorer = scorer_of(model)
    assert isinstance(scorer, PykeenScores)
    assert scorer.score("tail", GIVEN, RELATION).dtype == torch.float64


def test_more_vectors_than_entities(make):
    model = make("DistMult", embedding_dim=4)
    model.entity_representations[0].max_id += 1
    assert isinstance(scorer_of(model), PykeenScores)


def test_a_model_without_vectors():
    model = FixedModel(triples_factory=FACTS)
    scores = scorer_of(model).score("head", GIVEN, RELATION)
    torch.testing.assert_close(scores, asked(model, "head"))


def test_the_sigmoid_is_left_out(make):
    """It makes scores equal that are not."""
    model = make("TransH", embedding_dim=4, predict_with_sigmoid=True)
    scores = scorer_of(model).score("tail", GIVEN, RELATION)
    assert scores.min() < 0
    torch.testing.assert_close(torch.sigmoid(scores), asked(model, "tail"))


@pytest.mark.parametrize("name", ["TuckER", "ConvE", "TransH"])
def test_the_model_is_left_as_it_was(name, make):
    model = make(name, predict_with_sigmoid=True)
    model.train()
    frozen = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm1d)]
    for module in frozen:
        module.eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    trained = [module.training for module in model.modules()]
    scorer = scorer_of(model)
    for side in ("head", "tail"):
        if isinstance(scorer, PykeenScores):
            assert scorer.bytes_per_query > 0
            scorer.score(side, GIVEN, RELATION)
        else:
            scorer.encode_queries(side, GIVEN, RELATION)
    assert [module.training for module in model.modules()] == trained
    assert model.predict_with_sigmoid
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[key]), key


def test_a_failure_leaves_the_model_as_it_was(make):
    model = make("TransH", embedding_dim=4)
    model.train()
    with pytest.raises(IndexError):
        scorer_of(model).score("tail", np.array([99]), np.array([0]))
    assert all(module.training for module in model.modules())


def test_dropout_is_off(make):
    model = make("TuckER", embedding_dim=6, dropout_0=0.9, dropout_1=0.9, dropout_2=0.9)
    model.train()
    queries = [scorer_of(model).encode_queries("tail", GIVEN, RELATION) for _ in range(2)]
    assert np.array_equal(*queries)


def test_memory_grows_with_what_the_model_computes(make):
    """ConvKB makes a number for every filter, coordinate and entity."""
    few, many = (
        scorer_of(make("ConvKB", embedding_dim=5, num_filters=n, entities=1000)).bytes_per_query for n in (2, 200)
    )
    assert 4 * 1000 * 5 * 200 <= many <= 40 * 4 * 1000 * 5 * 200
    assert few < many / 20
    larger = scorer_of(make("ConvKB", embedding_dim=5, num_filters=200, entities=4000)).bytes_per_query
    assert larger == pytest.approx(4 * many, rel=0.1)


def test_what_is_a_model(make):
    assert is_pykeen(make("TransE", embedding_dim=4))
    assert not is_pykeen(torch.nn.Linear(2, 2))
    assert not is_pykeen(None)


def test_asking_does_not_load_the_library():
    program = (
        "import sys; from kgprobe.predict.adapters.pykeen_scorer import is_pykeen; is_pykeen(3); "
        "print(sorted({'torch', 'pykeen', 'safetensors'} & sys.modules.keys()))"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


@pytest.mark.parametrize("side", ["head", "tail"])
@pytest.mark.parametrize("name", ["CompGCN", "RGCN"])
def test_vectors_that_a_network_computes(name, side):
    """What the network makes of all entities at once is what a query is compared with."""
    triples = np.random.default_rng(0).integers([23, 5, 23], size=(60, 3))
    factory = CoreTriplesFactory.create(torch.tensor(triples), 23, 5, create_inverse_triples=name == "CompGCN")
    model = model_resolver.lookup(name)(triples_factory=factory, embedding_dim=8, random_seed=0)
    model.train()
    scorer = scorer_of(model)
    assert isinstance(scorer, PykeenEmbeddings)
    queries, candidates = scorer.encode_queries(side, GIVEN, RELATION), scorer.candidates(side)
    torch.testing.assert_close(torch.tensor(queries @ candidates.T), asked(model, side))


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
def with_inverse(request):
    return request.param


@pytest.fixture(params=CASES)
def form_model(request, make, with_inverse):
    name, settings, _ = CASES[request.param]
    return make(name, inverse=with_inverse, **settings)


def every_query(model):
    return np.divmod(np.arange(model.num_entities * model.num_real_relations), model.num_real_relations)


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
def test_vectors_score_as_the_model_does(form_model, side):
    given, relation = every_query(form_model)
    scorer = scorer_of(form_model)
    assert isinstance(scorer, PykeenEmbeddings)
    queries, candidates = scorer.encode_queries(side, given, relation), scorer.candidates(side)
    assert queries.dtype == candidates.dtype == np.float32
    found, size = compared(scorer.similarity, queries, candidates)
    wanted = exact_scores(form_model, side, given, relation)
    assert np.all(np.abs(found - wanted) <= 2 * UNIT * size)
    # The same queries in PyKEEN's own float32: another oracle, with more noise.
    own = torch.tensor(np.stack([given, relation] if side == "tail" else [relation, given], axis=1))
    with torch.no_grad():
        noisy = (form_model.predict_t(own) if side == "tail" else form_model.predict_h(own)).numpy()
    np.testing.assert_allclose(found, noisy, rtol=2e-5, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("case", CASES)
def test_similarity(case, make):
    name, settings, similarity = CASES[case]
    assert scorer_of(make(name, **settings)).similarity == similarity


@pytest.mark.parametrize("side", ["head", "tail"])
def test_a_query_does_not_depend_on_its_batch(form_model, side):
    scorer = scorer_of(form_model)
    given, relation = every_query(form_model)
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
    encode = pykeen_scorer.embedding_form(TuckERInteraction(130, 70), [entities], [relations]).encode[side]
    given, relation = np.arange(40), np.arange(40) % 3
    whole = encode(given, relation)
    assert whole.dtype == np.float64
    each = [encode(given[i : i + 1], relation[i : i + 1]) for i in range(len(given))]
    assert np.array_equal(np.concatenate(each), whole)


def test_many_large_relation_matrices_are_not_kept(make, monkeypatch):
    model = make("TuckER", embedding_dim=6)
    needed = model.num_relations * 6 * 6 * 8
    monkeypatch.setattr(pykeen_scorer, "MOST_MATRIX_BYTES", needed)
    assert isinstance(scorer_of(model), PykeenEmbeddings)
    monkeypatch.setattr(pykeen_scorer, "MOST_MATRIX_BYTES", needed - 1)
    assert not isinstance(scorer_of(model), PykeenEmbeddings)


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
    assert pykeen_scorer.embedding_form(interaction, [entities], [relations]) is None


def test_the_plain_ones_are_taken():
    assert pykeen_scorer.embedding_form(TransEInteraction(p=2), [REAL], [REAL]) is not None
    assert pykeen_scorer.embedding_form(ComplExInteraction(), [COMPLEX], [COMPLEX]) is not None
    core = TuckERInteraction(embedding_dim=2)
    assert pykeen_scorer.embedding_form(core, [REAL], [REAL]).candidates["head"].shape == (4, 3)


def test_every_tensor_on_the_way_counts():
    a, b = torch.ones(10, 1), torch.ones(1, 7)
    assert bytes_made(lambda: (a + b).exp()) == 2 * 10 * 7 * 4
    assert bytes_made(lambda: None) == 0


def test_results_of_several_tensors():
    assert bytes_made(lambda: torch.max(torch.ones(3, 5, dtype=torch.float64), dim=1)) == 3 * 5 * 8 + 3 * 8 + 3 * 8


def test_what_went_before_does_not_count():
    held = torch.ones(1000)
    assert bytes_made(lambda: held.sum()) == 4
    assert bytes_made(lambda: held.sum()) == 4
