"""The order of the published models on wn18rr and umls, as the paper prints it, and how sure it is."""

import csv
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.comparison import line_up
from kgprobe.decision import DecisionMap, decision_map

MODELS = ("RotatE", "ComplEx", "HousE", "TuckER", "pLogicNet", "RNNLogic")


@pytest.fixture(scope="module")
def planes(data: Path) -> dict[tuple[str, str], DecisionMap]:
    lineups = {
        graph: line_up(
            {model: kp.read_ranks(data / "published_ranks" / graph / f"{model}.parquet") for model in MODELS},
            graph=kp.load_graph(data / "graphs" / graph),
        )
        for graph in ("wn18rr", "umls")
    }
    return {
        (graph, seeds): decision_map(lineup, seeds=seeds, allow_different_candidates=True)
        for graph, lineup in lineups.items()
        for seeds in ("fixed", "random")
    }


@pytest.mark.parametrize("graph", ["wn18rr", "umls"])
def test_places_are_those_of_the_printed_tables(data: Path, planes: dict, graph: str) -> None:
    plane = planes[graph, "fixed"]
    places = plane.places()
    printed: dict[tuple[float, float], dict[str, float]] = {}
    with (data / "published_ranks" / "paper_tables.csv").open() as file:
        for row in csv.DictReader(file):
            if row["graph"] == graph:
                printed.setdefault((float(row["alpha"]), float(row["beta"])), {})[row["model"]] = float(row["score"])
    compared = 0
    for (alpha, beta), scores in printed.items():
        i, j = plane.alphas.tolist().index(alpha), plane.betas.tolist().index(beta)
        for m, model in enumerate(MODELS):
            others = [score for other, score in scores.items() if other != model]
            if scores[model] in others:
                continue
            assert places[m, i, j] == 1 + sum(score > scores[model] for score in others), (alpha, beta, model)
            compared += 1
    assert compared > 50


@pytest.mark.parametrize("seeds", ["fixed", "random"])
def test_house_rises_from_last_to_first(planes: dict, seeds: str) -> None:
    plane = planes["wn18rr", seeds]
    places = {(row["alpha"], row["beta"], row["model"]): row["place"] for row in plane.to_rows()}
    assert [places[alpha, 0.0, "HousE"] for alpha in (1.0, -1.0)] == [6, 1]


def test_which_of_these_orders_are_beyond_noise(planes: dict) -> None:
    """Of these very runs the last place at alpha 1 is sure, and the first at alpha -1 might be pLogicNet's.

    The runs of pLogicNet differ so much that another training might bring it down to HousE at alpha 1.
    """
    fixed, random = planes["wn18rr", "fixed"], planes["wn18rr", "random"]
    ranges = {
        (name, alpha): (row["best_place"], row["worst_place"])
        for name, plane in (("fixed", fixed), ("random", random))
        for alpha in (1.0, -1.0)
        for row in plane.at(alpha, 0.0)
        if row["model"] == "HousE"
    }
    assert ranges == {
        ("fixed", 1.0): (6, 6),
        ("fixed", -1.0): (1, 2),
        ("random", 1.0): (5, 6),
        ("random", -1.0): (1, 3),
    }


def test_random_seeds_leave_more_open(planes: dict) -> None:
    for graph in ("wn18rr", "umls"):
        fixed, random = planes[graph, "fixed"], planes[graph, "random"]
        assert (fixed.beats | ~random.beats).all()
        assert random.beats.sum() < fixed.beats.sum()
        np.testing.assert_array_equal(fixed.scores, random.scores)
