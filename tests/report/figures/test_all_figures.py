import subprocess
import sys
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text

from figure_inputs import HOSTILE, everything, small_graph
from kgprobe.comparison import Lineup
from kgprobe.errors import DataError, UsageError
from kgprobe.report.figures import FIGURES, Inputs, Offer, find_figure, save
from kgprobe.report.figures.style import plain

NAMES = sorted(FIGURES)

NOTHING = Offer()

WHOLE = Offer(models=("one", "other"), popularity=True, graph=True)


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@cache
def drawn(name: str) -> Figure:
    return find_figure(name).draw(everything())


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_drawn_without_a_warning(name: str, tmp_path: Path) -> None:
    save(drawn(name), tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


@pytest.mark.parametrize("name", NAMES)
def test_equal_inputs_give_equal_files(name: str, tmp_path: Path) -> None:
    paths = tmp_path / "a.svg", tmp_path / "b.svg"
    for figure, path in zip((drawn(name), find_figure(name).draw(everything())), paths, strict=True):
        save(figure, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_no_text_is_smaller_than_7_points_nor_the_figure_wider_than_a_page(name: str) -> None:
    shown = [text for text in drawn(name).findobj(Text) if text.get_visible() and text.get_text()]
    assert shown
    assert min(text.get_fontsize() for text in shown) >= 7
    assert drawn(name).get_figwidth() <= 7


@pytest.mark.parametrize("name", [name for name in NAMES if FIGURES[name].models])
def test_hostile_names_appear_as_text(name: str, tmp_path: Path) -> None:
    graph = small_graph(HOSTILE, HOSTILE[:3])
    save(find_figure(name).draw(everything(HOSTILE, graph)), tmp_path / "figure.svg")
    root = ElementTree.parse(tmp_path / "figure.svg").getroot()
    written = " ".join("".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text"))
    shown = HOSTILE[:2] if FIGURES[name].pair else HOSTILE
    missing = [model for model in shown if plain(model, 9).split("…")[0] not in written]
    assert name == "decision-map" or not missing
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def _one_query(row: int) -> Inputs:
    whole = everything()
    kept = np.arange(len(whole.ranks)) == row
    runs = {model: tuple(run.filter(kept) for run in runs) for model, runs in whole.ranks.runs.items()}
    return Inputs(whole.offer, Lineup(runs, dict.fromkeys(runs, 0)), whole.graph)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "geometry"])
def test_one_query_can_be_drawn(name: str) -> None:
    assert find_figure(name).draw(_one_query(1)).axes


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("geometry", 1),
        *((name, 0) for name in ("crossing-lines", "heat-maps", "decision-map", "bands", "case-studies")),
    ],
)
def test_what_cannot_be_drawn_is_said(name: str, row: int) -> None:
    with pytest.raises(DataError, match="popular"):
        find_figure(name).draw(_one_query(row))


@pytest.mark.parametrize("name", ["popularity-groups", "geometry"])
def test_more_models_than_anybody_can_tell_apart_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="13 models are too many"):
        find_figure(name).draw(everything([f"m{i}" for i in range(13)]))


def test_what_needs_nothing_is_drawn_from_nothing() -> None:
    free = [kind for kind in FIGURES.values() if not kind.missing(NOTHING)]
    assert {kind.name for kind in free} == {"transformers", "weights", "weight-surface", "geometry"}
    for kind in free:
        assert kind.draw(Inputs(NOTHING, None, None)).axes


def test_popularity_is_drawn_from_a_graph_alone() -> None:
    offer = Offer(popularity=True, graph=True)
    for name in ("crossing-lines", "popularity-density"):
        assert not find_figure(name).missing(offer)
        assert find_figure(name).draw(Inputs(offer, None, small_graph())).axes


@pytest.mark.parametrize(
    ("name", "offer", "missing"),
    [
        ("rank-histogram", NOTHING, ["rank files of at least 2 models (none is given)"]),
        ("rank-histogram", replace(NOTHING, models=("a",)), ["rank files of at least 2 models (1 is given)"]),
        ("rank-histogram", replace(NOTHING, models=("a", "b")), []),
        ("popularity-groups", replace(NOTHING, popularity=True), ["rank files of at least 1 model (none is given)"]),
        ("crossing-lines", NOTHING, ["the popularity of the queries (give `graph`, or rank files with popularity)"]),
        ("geometry", NOTHING, []),
        (
            "geometry",
            replace(NOTHING, models=("a",)),
            ["the popularity of the queries (give `graph`, or rank files with popularity)"],
        ),
        ("heat-maps", replace(WHOLE, popularity=False, betas=(0.0,)), []),
        (
            "heat-maps",
            replace(WHOLE, popularity=False, betas=(0.0, 0.4)),
            ["the popularity of the queries (give `graph`, or rank files with popularity)"],
        ),
        ("case-studies", replace(WHOLE, graph=False), ["the graph with its training triples (give `graph`)"]),
        ("case-studies", WHOLE, []),
    ],
)
def test_needs_are_named_before_any_work(name: str, offer: Offer, missing: list[str]) -> None:
    assert find_figure(name).missing(offer) == missing


def test_an_unknown_name_is_answered_with_near_ones_and_all() -> None:
    with pytest.raises(UsageError) as error:
        find_figure("heatmap")
    assert error.value.title == "unknown figure 'heatmap'; nearest: heat-maps"
    assert all(name in error.value.remedy for name in FIGURES)


def test_models_keep_their_colours_in_all_figures() -> None:
    inputs = everything(("a", "b", "c"))
    histogram = find_figure("rank-histogram").draw(inputs).axes[0]
    bars = {bars.get_label(): bars[0].get_facecolor() for bars in histogram.containers}
    lines = {line.get_label(): line.get_color() for line in find_figure("bands").draw(inputs).axes[0].lines}
    assert bars == {model: to_rgba(colour) for model, colour in lines.items()}


def test_given_values_of_alpha_and_beta_are_used() -> None:
    inputs = replace(everything(), offer=replace(everything().offer, alphas=(1.0, 0.0), betas=(0.0, 0.5, 0.8)))
    shape = find_figure("heat-maps").draw(inputs).axes[0].images[0].get_array().shape
    assert shape == (3, 2)
    titles = [axes.get_title() for axes in find_figure("geometry").draw(inputs).axes]
    assert len(titles) == 6


def test_neither_names_nor_drawing_need_pyplot_and_names_need_no_matplotlib() -> None:
    program = (
        "import sys; from kgprobe.report.figures import FIGURES, Inputs, Offer\n"
        "assert 'matplotlib' not in sys.modules\n"
        "FIGURES['weights'].draw(Inputs(Offer(), None, None))\n"
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
