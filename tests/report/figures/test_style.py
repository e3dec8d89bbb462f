import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from kgprobe.errors import DataError, UsageError
from kgprobe.report.figures.function_figures import draw_transformers
from kgprobe.report.figures.style import (
    ENDINGS,
    figure_type,
    grid_axis,
    in_style,
    log_axis,
    looks,
    panels,
    place_of_zero,
    plain,
    power_of_ten,
    refuse_many,
    save,
    scientific,
    setting,
)


def _ticks(low: float, high: float, zero_at: float | None = None) -> dict[float, str]:
    axes = Figure().add_subplot()
    log_axis(axes, "y", low, high, zero_at=zero_at)
    return {tick: label.get_text() for tick, label in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)}


def test_a_long_axis_names_some_powers_and_always_one() -> None:
    assert _ticks(1e-7, 1) == {1e-6: "10⁻⁶", 1e-4: "10⁻⁴", 1e-2: "10⁻²", 1.0: "1"}


def test_zero_stands_below_the_smallest_value() -> None:
    values = np.array([0.0, 0.02, 0.5])
    zero = place_of_zero(values)
    assert zero == pytest.approx(0.02 / 3)
    assert list(_ticks(0.005, 1, zero).values()) == ["0", "10⁻¹", "1"]


def test_zero_has_no_place_where_nothing_is_zero_or_all_is() -> None:
    assert place_of_zero(np.array([0.1, 0.2])) is None
    assert place_of_zero(np.array([0.0, 0.0])) is None


@pytest.mark.parametrize(("count", "shown"), [(5, 5), (10, 10), (41, 5)])
def test_a_grid_names_all_cells_or_some(count: int, shown: int) -> None:
    axes = Figure().add_subplot()
    grid_axis(axes, "x", np.linspace(-1, 1, count).tolist())
    assert len(axes.get_xticks()) == shown
    assert axes.get_xticklabels()[0].get_text() == "\N{MINUS SIGN}1"


MAGIC = {"pdf": b"%PDF-", "svg": b"<?xml", "png": b"\x89PNG\r\n\x1a\n"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_ending_decides_the_kind_of_file(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"curves.{ending}"
    save(draw_transformers(), path)
    assert path.read_bytes().startswith(MAGIC[ending])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ENDINGS)
def test_equal_figures_are_equal_files(ending: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        save(draw_transformers(), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_files_do_not_depend_on_the_process(tmp_path: Path) -> None:
    program = (
        "import sys; from kgprobe.report.figures.style import save\n"
        "from kgprobe.report.figures.function_figures import draw_transformers\n"
        "figure = draw_transformers()\n"
        "for path in sys.argv[1:]: save(figure, path)"
    )
    there, here = ([tmp_path / f"{place}.{ending}" for ending in ENDINGS] for place in ("there", "here"))
    # Of the seeds 1 and 2, one is not that of this process.
    environment = os.environ | {"PYTHONHASHSEED": "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"}
    subprocess.run([sys.executable, "-c", program, *map(str, there)], check=True, env=environment)
    figure = draw_transformers()
    for one, other in zip(there, here, strict=True):
        save(figure, other)
        assert one.read_bytes() == other.read_bytes()


def test_a_pdf_has_true_fonts_and_no_date(tmp_path: Path) -> None:
    save(draw_transformers(), tmp_path / "curves.pdf")
    written = (tmp_path / "curves.pdf").read_bytes()
    assert b"/FontFile2" in written
    assert b"/Type3" not in written
    assert b"CreationDate" not in written


def test_text_in_an_svg_is_text(tmp_path: Path) -> None:
    save(draw_transformers([1.0]), tmp_path / "curves.svg")
    written = (tmp_path / "curves.svg").read_text(encoding="utf-8")
    assert ">rank r</text>" in written
    assert "<dc:date>" not in written


def test_other_endings_are_refused() -> None:
    for name in ("figure", "figure.bmp", "pdf"):
        with pytest.raises(UsageError, match="unknown file type") as error:
            figure_type(name)
        assert error.value.remedy == "choose one of .pdf, .svg, .png"


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be written"):
        save(draw_transformers(), tmp_path / "file" / "curves.pdf")


def _brightness(colour: str) -> float:
    red, green, blue = to_rgb(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_many_models_look_different_in_colour_and_shape_together() -> None:
    found = looks([str(i) for i in range(56)]).values()
    assert len({(look.colour, look.marker) for look in found}) == 56


def test_the_first_models_differ_in_every_way() -> None:
    found = looks(["a", "b", "c", "d", "e"]).values()
    for attribute in ("colour", "line", "marker", "hatch"):
        assert len({getattr(look, attribute) for look in found}) == 5


def test_neighbouring_colours_differ_in_grey_too() -> None:
    shades = [_brightness(look.colour) for look in looks([str(i) for i in range(8)]).values()]
    assert all(abs(a - b) > 0.1 for a, b in pairwise(shades))


@pytest.mark.parametrize(
    ("text", "drawn"),
    [("a\tb", "a b"), ("a\x00b", "a b"), ("\ufffe", "\ufffd"), ("a\u2028b", "a b"), ("שלום", "שלום"), ("$a$", "$a$")],
    ids=["tab", "nul", "no-character", "line-separator", "hebrew", "dollars"],
)
def test_labels_are_drawable(text: str, drawn: str) -> None:
    assert plain(text) == drawn


def test_long_labels_are_cut_to_the_length() -> None:
    assert plain("abcdefgh", 4) == "ab…h"
    assert plain("abcd", 4) == "abcd"


def test_the_users_settings_are_neither_used_nor_changed() -> None:
    with matplotlib.rc_context({"font.size": 31.0, "text.parse_math": True}):
        before = dict(matplotlib.rcParams)

        @in_style
        def draw():
            figure, (axes,) = panels(3, 2)
            axes.set_title("$x$")
            return figure

        title = draw().axes[0].title
        assert dict(matplotlib.rcParams) == before
    assert title.get_fontsize() == 8
    assert not title.get_parse_math()


def test_a_failing_figure_leaves_the_settings_alone() -> None:
    before = dict(matplotlib.rcParams)

    @in_style
    def draw():
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        draw()
    assert dict(matplotlib.rcParams) == before


def test_without_matplotlib_one_line_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    from kgprobe.report.figures.function_figures import draw_transformers

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError) as error:
        draw_transformers()
    assert error.value.remedy == "pip install 'kgprobe[report]'"


def test_too_many_curves_are_refused_with_the_limit() -> None:
    refuse_many("curves", 12)
    with pytest.raises(UsageError) as error:
        refuse_many("curves", 13)
    assert str(error.value) == "13 curves are too many for one figure\nRemedy: choose at most 12"


def test_numbers_as_they_are_written() -> None:
    assert [power_of_ten(k) for k in (-12, 0, 4, 5)] == ["10⁻¹²", "1", "10,000", "10⁵"]
    assert [scientific(x) for x in (1.0, 0.05, 0.0023, 4e-8)] == ["1", "0.05", "2.3·10⁻³", "4·10⁻⁸"]
    assert setting(alpha=0.0) == "\N{GREEK SMALL LETTER ALPHA} = 0"
