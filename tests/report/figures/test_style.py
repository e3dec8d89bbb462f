import sys
from itertools import pairwise

import matplotlib
import pytest
from matplotlib.colors import to_rgb

from kgprobe.errors import UsageError
from kgprobe.report.figures.style import in_style, looks, panels, plain, power_of_ten, refuse_many, scientific, setting


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
    from kgprobe.report.figures.transformers import draw_transformers

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
