import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import kgprobe as kp
from kgprobe.graph.family_tree import family_tree
from kgprobe.models.least_squares import fit_cp, fit_rescal
from kgprobe.predict.scorer import EmbeddingScorer
from kgprobe.predict.similarity import Dot
from kgprobe.predict.sources.embeddings import write_embeddings

FITS = pytest.mark.parametrize("fit", [fit_rescal, fit_cp])


@pytest.fixture(scope="module")
def families():
    return family_tree(trees=3, people_per_tree=60)


def score(model, h, r, t):
    """The score of a triple by the definition of its model, from what it would write to a file."""
    header, arrays = model.to_arrays()
    exact = {name: array.astype(np.float64) for name, array in arrays.items()}
    if header == {"model": "RESCAL"}:
        return exact["entity"][h] @ exact["relation"][r] @ exact["entity"][t]
    assert header == {"model": "CP"}
    return sum(exact["head_entity"][h] * exact["relation"][r] * exact["tail_entity"][t])


def scores(model, side, given, relation):
    return model.encode_queries(side, given, relation).astype(np.float64) @ model.candidates(side).T.astype(np.float64)


@FITS
def test_queries_and_candidates_score_as_the_model_is_defined(graph, fit):
    model = fit(graph, dimension=3)
    assert isinstance(model, EmbeddingScorer)
    assert model.similarity == Dot()
    given, relation = (index.ravel() for index in np.indices((9, 4)))
    tails, heads = scores(model, "tail", given, relation), scores(model, "head", given, relation)
    for row, (e, r) in enumerate(zip(given, relation, strict=True)):
        for other in range(9):
            assert tails[row, other] == pytest.approx(score(model, e, r, other), rel=1e-5, abs=1e-6)
            assert heads[row, other] == pytest.approx(score(model, other, r, e), rel=1e-5, abs=1e-6)


@FITS
def test_all_is_float32(graph, fit):
    model = fit(graph, dimension=3)
    given = np.array([0, 1])
    assert {array.dtype for array in model.to_arrays()[1].values()} == {np.dtype(np.float32)}
    assert {model.encode_queries(side, given, given).dtype for side in ("head", "tail")} == {np.dtype(np.float32)}


@FITS
def test_a_query_does_not_depend_on_what_else_is_asked(families, fit):
    model = fit(families, dimension=40)
    head, relation, _ = families.triples("test")[:200].T
    together = model.encode_queries("tail", head, relation)
    alone = [model.encode_queries("tail", head[i : i + 1], relation[i : i + 1]) for i in range(200)]
    assert np.concatenate(alone).tobytes() == together.tobytes()


@FITS
def test_the_same_seed_is_the_same_model(graph, fit):
    first, again, other = (fit(graph, dimension=3, seed=seed).to_arrays()[1] for seed in (7, 7, 8))
    assert all(first[name].tobytes() == again[name].tobytes() for name in first)
    assert any(first[name].tobytes() != other[name].tobytes() for name in first)


@FITS
def test_a_fit_runs_in_one_thread_and_leaves_the_others_to_those_who_want_them(graph, fit):
    def threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    inside = []
    with threadpool_limits(2, user_api="blas"):
        fit(graph, dimension=2, watch=lambda done: inside.append(threads()))
        assert threads() == {2}
    assert inside[0] == {1}


@FITS
def test_finished_iterations_are_announced(graph, fit):
    seen = []
    fit(graph, dimension=2, iterations=3, watch=seen.append)
    assert seen == [1, 1, 1]


@FITS
@pytest.mark.parametrize("ending", ["npz", "safetensors"])
def test_a_written_model_has_the_ranks_of_the_one_in_memory(families, fit, ending, tmp_path):
    if ending == "safetensors":
        pytest.importorskip("safetensors")
    model = fit(families, dimension=20)
    path = tmp_path / f"model.{ending}"
    write_embeddings(path, *model.to_arrays())
    written, kept = kp.rank(path, families), kp.rank(model, families)
    assert written.info.model == model.name
    assert (written.rank == kept.rank).all()
    assert (written.ties == kept.ties).all()


@FITS
def test_facts_that_were_held_out_are_found(families, fit):
    """Far above what the frequency of entities explains."""
    mrr = {
        name: kp.evaluate(kp.rank(m, families), ["MRR"])["MRR"]
        for name, m in (("model", fit(families, dimension=80)), ("frequency", "relation-frequency"))
    }
    assert mrr["model"] > 0.5 > 5 * mrr["frequency"]
