"""Ranks of PyKEEN models trained on real graphs, against PyKEEN's own evaluator.

PyKEEN computes scores in float32, in an order of its own, so that it may decide either way between two scores that
are nearly equal. Wherever a rank differs, every single candidate on which the two disagree must be such a case: its
score in double precision is as near to that of the target as the rounding errors of float32 explain.
"""

import copy
import zlib
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
from pykeen.evaluation import RankBasedEvaluator
from pykeen.models import Model, model_resolver
from pykeen.training import SLCWATrainingLoop
from pykeen.triples import CoreTriplesFactory

from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.predict.adapters.pykeen_scorer import scorer_of
from kgprobe.predict.ranking import rank

UNIT = 2.0**-24

MOST_TRAINED, MOST_FACTS = 3000, 600

FILTERED = 9

FEW = 0.01

"""Queries whose rank may differ, as a share: rounding errors are rare exceptions."""


@dataclass
class Recorder(RankBasedEvaluator):
    """PyKEEN's evaluator, which also notes how each candidate compares to the target: 1 beats, 0 ties, -1 loses."""

    decided: dict = field(default_factory=lambda: {"head": [], "tail": []})

    def __post_init__(self):
        super().__init__(filtered=True, metrics=["mean_rank"], add_defaults=False, clear_on_finalize=False)

    def process_scores_(self, hrt_batch, target, scores, true_scores=None, dense_positive_mask=None):
        super().process_scores_(hrt_batch, target, scores, true_scores, dense_positive_mask)
        decided = torch.where(scores.isnan(), FILTERED, torch.sign(scores - true_scores))
        self.decided[target].append(decided.to(torch.int8).numpy())


CASES = [
    ("nations", "DistMult", {"embedding_dim": 32}, False),
    ("nations", "TuckER", {"embedding_dim": 20, "relation_dim": 12}, True),
    ("umls", "TransE", {"embedding_dim": 24, "scoring_fct_norm": 2}, False),
    ("umls", "TuckER", {"embedding_dim": 16}, False),
    ("kinship", "TransE", {"embedding_dim": 24, "scoring_fct_norm": 1}, True),
    ("kinship", "RotatE", {"embedding_dim": 16}, False),
    ("codex-s", "DistMult", {"embedding_dim": 24}, False),
    ("codex-s", "ComplEx", {"embedding_dim": 16}, True),
    ("codex-s", "RotatE", {"embedding_dim": 8}, True),
]


def case_name(case):
    graph, model, settings, inverse = case
    norm = f"-L{settings['scoring_fct_norm']}" if "scoring_fct_norm" in settings else ""
    return f"{graph}-{model}{norm}{'-inverse' if inverse else ''}"


@dataclass
class Case:
    """A graph, a model of it, and some of its test triples."""

    graph: KnowledgeGraph
    model: Model
    triples: torch.Tensor

    @classmethod
    def build(cls, data, case, epochs=2):
        name, kind, settings, inverse = case
        graph = load_graph(data / "graphs" / name)
        seed = zlib.crc32(case_name(case).encode())
        draw = torch.Generator().manual_seed(seed)
        train, test = (some[torch.randperm(len(some), generator=draw)] for some in triples(graph, "train", "test"))
        numbers = (graph.num_entities, graph.num_relations)
        factory = CoreTriplesFactory.create(train[:MOST_TRAINED], *numbers, create_inverse_triples=inverse)
        model = model_resolver.lookup(kind)(triples_factory=factory, random_seed=seed, **settings)
        loop = SLCWATrainingLoop(model=model, triples_factory=factory, optimizer="Adam", optimizer_kwargs={"lr": 0.02})
        loop.train(factory, num_epochs=epochs, batch_size=512, use_tqdm=False)
        return cls(graph, model, test[:MOST_FACTS])

    def both(self):
        """Our ranks, and PyKEEN's evaluator after it has evaluated."""
        evaluator = Recorder()
        known = triples(self.graph, "train", "valid", "test")
        evaluator.evaluate(self.model, self.triples, batch_size=100, additional_filter_triples=known, use_tqdm=False)
        return rank(self.model, self.graph, triples=self.triples.numpy()), evaluator


def triples(graph, *splits):
    return [torch.tensor(graph.triples(split).astype(np.int64)) for split in splits]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """The models are so small that several threads wait for each other most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=CASES, ids=case_name)
def case(request, data):
    return Case.build(data, request.param)


def rows_that_differ(ranks, evaluator):
    """Queries whose realistic, optimistic or pessimistic rank is another one in PyKEEN."""
    ours = {"realistic": ranks.rank, "optimistic": ranks.optimistic, "pessimistic": ranks.pessimistic}
    return np.flatnonzero(np.any([ours[what] != of_pykeen(evaluator.ranks, what) for what in ours], axis=0))


def of_pykeen(noted, *what):
    """What the evaluator has for every query: all tails, then all heads, as `rank` has it."""
    keys = [(side, *what) if what else side for side in ("tail", "head")]
    return np.concatenate([np.concatenate(noted[key]) for key in keys])


def test_ranks_are_those_of_pykeen_but_for_its_rounding_errors(case):
    ranks, evaluator = case.both()
    assert np.array_equal(ranks.candidates, of_pykeen(evaluator.num_candidates))
    differ = rows_that_differ(ranks, evaluator)
    assert len(differ) <= FEW * len(ranks)
    assert unexplained(case.model, ranks, evaluator, differ) == 0


def test_the_bound_of_rounding_errors_is_narrow(case):
    """It tells apart what is a thousandth of the usual difference between scores, or else it would explain anything."""
    head, relation, tail = case.triples.numpy()[:50].T
    for side, given in (("tail", head), ("head", tail)):
        usual = exact_scores(case.model, side, given, relation).std(axis=1, keepdims=True)
        assert (error_bound(case.model, side, given, relation) / usual).mean() < 1e-3


@pytest.mark.parametrize("chosen", [case for case in CASES if case[0] != "codex-s"], ids=case_name)
def test_near_twins(chosen, data):
    """Every second entity is the one before it but for the last bit of every number: a hard case for float32."""
    case = Case.build(data, chosen, epochs=1)
    with torch.no_grad():
        vectors = case.model.entity_representations[0]._embeddings.weight
        pairs = len(vectors) // 2 * 2
        vectors[1:pairs:2] = torch.nextafter(vectors[0:pairs:2], torch.tensor(torch.inf))
    ranks, evaluator = case.both()
    differ = rows_that_differ(ranks, evaluator)
    assert len(differ) > FEW * len(ranks)
    assert unexplained(case.model, ranks, evaluator, differ) == 0


def test_an_error_that_no_rounding_explains_is_found(data):
    case = Case.build(data, CASES[0])
    ranks, evaluator = case.both()
    beaten = next(column for column, sign in enumerate(evaluator.decided["tail"][0][0]) if sign == -1)
    evaluator.decided["tail"][0][0, beaten] = 1
    assert unexplained(case.model, ranks, evaluator, np.array([0])) == 1


def unexplained(model, ranks, evaluator, rows):
    """On how many candidates of these queries the two disagree, though float32 could have told them apart."""
    tails = ranks.predicts_tail[rows]
    return sum(_unexplained(model, ranks, evaluator, rows[tails == flag], flag) for flag in (True, False))


def _unexplained(model, ranks, evaluator, rows, tails):
    if not len(rows):
        return 0
    side, each = ("tail" if tails else "head"), np.arange(len(rows))
    given = (ranks.head if tails else ranks.tail)[rows]
    relation, target = ranks.relation[rows], ranks.target[rows]
    theirs = of_pykeen(evaluator.decided)[rows]
    canonical = canonical_scores(model, side, given, relation)
    ours = np.sign(canonical - canonical[each, target][:, None])
    left = theirs != FILTERED
    left[each, target] = False
    assert np.array_equal((left & (ours > 0)).sum(axis=1) + 1, ranks.optimistic[rows])  # that is what was ranked by
    assert np.array_equal((left & (ours == 0)).sum(axis=1), ranks.ties[rows])
    disagree = left & (ours != theirs)
    assert disagree.any(axis=1).all()
    exact, error = exact_scores(model, side, given, relation), error_bound(model, side, given, relation)
    gap = np.abs(exact - exact[each, target][:, None])
    return int((disagree & (gap > error + error[each, target][:, None])).sum())


def canonical_scores(model, side, given, relation):
    scorer = scorer_of(model)
    candidates = scorer.candidates(side)
    queries = scorer.encode_queries(side, given, relation)
    pairs = queries.repeat(len(candidates), axis=0), np.tile(candidates, (len(queries), 1))
    return scorer.similarity.canonical(*pairs).reshape(len(queries), len(candidates))


def exact_scores(model, side, given, relation):
    """The model's own scores, in double precision."""
    precise = copy.deepcopy(model).double()
    with torch.inference_mode():
        if side == "tail":
            return precise.predict_t(torch.tensor(np.stack([given, relation], axis=1))).numpy()
        return precise.predict_h(torch.tensor(np.stack([relation, given], axis=1))).numpy()


def error_bound(model, side, given, relation):
    """How far a float32 score can be from the exact one: operations in a row x 2^-24 x sum of all absolute terms."""
    with torch.inference_mode():
        entities = np.abs(model.entity_representations[0](None).numpy().astype(complex))
        relations = np.abs(model.relation_representations[0](None).numpy().astype(complex))
    if model.use_inverse_triples:
        relation, side = 2 * relation + (side == "head"), "tail"
    size = SIZES[type(model).__name__](model, side, entities[given], relations[relation], entities)
    return (2 * entities.shape[1] + relations.shape[1] + 16) * UNIT * size


def of_products(_model, _side, given, relation, entities):
    return 2 * (given * relation) @ entities.T  # a product of complex numbers has up to twice the terms


def of_trans_e(model, _side, given, relation, entities):
    norm = model.interaction.p
    return np.linalg.norm(given + relation, norm, axis=1)[:, None] + np.linalg.norm(entities, norm, axis=1)


def of_rotate(_model, _side, given, relation, entities):
    return 2 * (np.linalg.norm(given * relation, axis=1)[:, None] + np.linalg.norm(entities, axis=1))


def of_tucker(model, side, given, relation, entities):
    """All terms of the formula without their signs; normalisation multiplies and adds on either side of the core."""
    core = np.abs(model.interaction.core_tensor.detach().numpy().astype(float))
    (scale, shift), (outer_scale, outer_shift) = (
        normalisation(layer)
        for layer in (model.interaction.head_batch_norm, model.interaction.head_relation_batch_norm)
    )
    matrices = np.einsum("ijk,nj->nik", core, relation)
    heads, tails = (given, entities) if side == "tail" else (entities, given)
    heads = heads * scale + shift
    if side == "tail":
        return (np.einsum("nik,ni->nk", matrices, heads) * outer_scale + outer_shift) @ tails.T
    weighted = np.einsum("nik,nk->ni", matrices, tails * outer_scale)
    return weighted @ heads.T + (tails @ outer_shift)[:, None]


def normalisation(layer):
    scale = layer.weight.detach().numpy().astype(float) / np.sqrt(layer.running_var.numpy().astype(float) + layer.eps)
    return np.abs(scale), np.abs(layer.bias.detach().numpy()) + np.abs(layer.running_mean.numpy() * scale)


SIZES = {
    "ComplEx": of_products,
    "DistMult": of_products,
    "RotatE": of_rotate,
    "TransE": of_trans_e,
    "TuckER": of_tucker,
}
