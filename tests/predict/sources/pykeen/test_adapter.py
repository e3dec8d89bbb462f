import subprocess
import sys

import numpy as np
import pytest
import torch
from pykeen.models import DistMult, FixedModel, TransE, model_resolver
from pykeen.triples import CoreTriplesFactory, KGInfo

from kgprobe.predict.scorer import Scorer
from kgprobe.predict.sources.pykeen import is_pykeen, scorer_of
from kgprobe.predict.sources.pykeen.adapter import PykeenScores, PykeenVectors

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
        "import sys; from kgprobe.predict.sources.pykeen import is_pykeen; is_pykeen(3); "
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
    assert isinstance(scorer, PykeenVectors)
    queries, candidates = scorer.encode_queries(side, GIVEN, RELATION), scorer.candidates(side)
    torch.testing.assert_close(torch.tensor(queries @ candidates.T), asked(model, side))
