"""Style of the figures: sizes, colours, markers, number formats, axes and saving."""

from __future__ import annotations

import io
import math
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from kgprobe.arrays import Floats
from kgprobe.errors import UsageError
from kgprobe.files import replacing
from kgprobe.report.grid import ending_of

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN, PAGE = 3.4, 7.0  # width in inches of a column, and of a page with two columns
ALPHA, BETA, MINUS = "\N{GREEK SMALL LETTER ALPHA}", "\N{GREEK SMALL LETTER BETA}", "\N{MINUS SIGN}"
SHARPNESS, ROBUSTNESS = f"sharpness {ALPHA}", f"robustness {BETA}"
"""Axis labels of alpha and beta."""

_NOTEBOOK_DPI = 130
HEAT = "cividis"  # perceptually uniform, also for colour blindness and in greyscale

_SETTINGS: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib, so figures are the same on every machine
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "figure.titlesize": 8,
    "text.parse_math": False,  # labels may contain dollar signs
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "hatch.linewidth": 0.5,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "savefig.dpi": 300,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "kgprobe",
}


@dataclass(frozen=True)
class Look:
    """Colour, line style, marker and hatching of a model, the same in all figures."""

    colour: str
    line: Any
    marker: str
    hatch: str


# Okabe and Ito (2008), ordered so that neighbours also differ in brightness; yellow, hard to see, is last.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#56B4E9", "#D55E00", "#CC79A7", "#000000", "#F0E442")
_LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++")


def looks(models: Sequence[str]) -> dict[str, Look]:
    """A look for each model, in figures and on the report page.

    After eight models the colours repeat, darker and lighter; 56 models differ in colour and marker together.

    Example:
        >>> looks(["RotatE", "HousE"])["HousE"]
        Look(colour='#E69F00', line=(0, (5, 1.5)), marker='s', hatch='////')
    """
    return {
        model: Look(
            _colour(i),
            _LINES[i % len(_LINES)],
            _MARKERS[i % len(_MARKERS)],
            _HATCHES[i % len(_HATCHES)],
        )
        for i, model in enumerate(models)
    }


def _colour(index: int) -> str:
    """The colour of a model; in later rounds it is mixed with black and white in turn."""
    turn, place = divmod(index, len(_COLOURS))
    share, towards = min(0.25 * ((turn + 1) // 2), 0.6), 0 if turn % 2 else 255
    channels = [int(_COLOURS[place][at : at + 2], 16) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(own + (towards - own) * share):02X}" for own in channels)


def plain(text: str, longest: int = 40) -> str:
    r"""A label on one line, without control characters, shortened in the middle if it is too long.

    Example:
        >>> plain("two\nlines"), plain("$x_1$"), plain("a" * 50, 5)
        ('two lines', '$x_1$', 'aa…aa')
    """
    drawable = "".join(_REPLACED.get(unicodedata.category(c), c) if c not in _NO_XML else "\ufffd" for c in text)
    kept = longest - 1
    return drawable if len(drawable) <= longest else drawable[: (kept + 1) // 2] + "…" + drawable[-(kept // 2) :]


_REPLACED = {"Cc": " ", "Cs": "\ufffd", "Zl": " ", "Zp": " "}
_NO_XML = "\ufffe\uffff"


@contextmanager
def house_style() -> Iterator[None]:
    """Use the style of the project temporarily, independent of the user's matplotlib settings."""
    try:
        from matplotlib import style
    except ImportError:
        raise UsageError("figures need matplotlib", remedy="pip install 'kgprobe[report]'") from None
    with warnings.catch_warnings(), style.context(["default", _SETTINGS]):
        # Labels come from data; characters missing from the font are drawn as boxes without a warning.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


_Parameters = ParamSpec("_Parameters")


def in_style(draw: Callable[_Parameters, Figure]) -> Callable[_Parameters, Figure]:
    """Decorator: draw in the style of the project."""

    @wraps(draw)
    def drawn(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> Figure:
        with house_style():
            figure = draw(*args, **kwargs)
            figure.draw_without_rendering()  # creates the ticks while the style is active
            figure.set_layout_engine("none")  # so that saving does not change the layout again
            return figure

    return drawn


def panels(width: float, height: float, rows: int = 1, columns: int = 1, **shared: Any) -> tuple[Figure, list[Axes]]:
    """A figure outside pyplot's global state, and its axes row by row."""
    figure = _figure_class()(figsize=(width, height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **shared)
    return figure, list(grid.ravel())


@cache
def _figure_class() -> type[Figure]:
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """A figure that a notebook shows although pyplot, which would register it, is not in use."""

        def _repr_png_(self) -> bytes:
            drawn = io.BytesIO()
            with house_style():
                self.savefig(drawn, format="png", dpi=_NOTEBOOK_DPI)
            return drawn.getvalue()

    return NotebookFigure


def legend_above(figure: Figure, handles: Sequence[Artist], names: Sequence[str]) -> None:
    """A legend above the whole figure, with as many columns as fit."""
    letter, handle = 0.055, 0.55  # widths in inches
    fitting = int(figure.get_figwidth() / (letter * max(map(len, names)) + handle))
    figure.legend(handles, names, loc="outside upper center", ncols=max(1, min(fitting, len(names))))


def refuse_many(what: str, count: int, most: int = 12) -> None:
    """Raise a UsageError for more curves or panels than can be distinguished."""
    if count > most:
        raise UsageError(f"{count:,} {what} are too many for one figure", remedy=f"choose at most {most}")


def whole(number: float) -> str:
    """A number for an axis, with commas.

    Example:
        >>> whole(1000.0), whole(-1410.5)
        ('1,000', '−1,410.5')
    """
    return f"{number:,.10g}".replace("-", MINUS)


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power_of_ten(exponent: int) -> str:
    """A power of ten with superscript digits.

    Example:
        >>> [power_of_ten(k) for k in (-5, 0, 3)]
        ['10⁻⁵', '1', '1,000']
    """
    return f"{10**exponent:,}" if 0 <= exponent <= 4 else "10" + str(exponent).translate(_RAISED)


def setting(*, alpha: float | None = None, beta: float | None = None) -> str:
    """Alpha and beta of a curve or panel as text.

    Example:
        >>> setting(alpha=-0.5, beta=0), setting(beta=0.8)
        ('α = −0.5, β = 0', 'β = 0.8')
    """
    parameters = {ALPHA: alpha, BETA: beta}
    return ", ".join(f"{letter} = {signed(value)}" for letter, value in parameters.items() if value is not None)


def signed(number: float) -> str:
    """A number with a typographic minus sign, for titles and ticks.

    Example:
        >>> signed(-0.5), signed(1.0)
        ('−0.5', '1')
    """
    return f"{number:g}".replace("-", MINUS)


def scientific(number: float) -> str:
    """A positive number with two digits, and with a power of ten if it is small.

    Example:
        >>> scientific(0.5), scientific(0.0000123), scientific(0.0)
        ('0.5', '1.2·10⁻⁵', '0')
    """
    digits, _, exponent = f"{number:.1e}".partition("e")
    if number == 0 or int(exponent) >= -2:
        return f"{number:.2g}"
    return f"{digits.removesuffix('.0')}·{power_of_ten(int(exponent))}"


Direction = Literal["x", "y"]
_MOST_TICKS = 5
_BELOW = 3.0  # on a logarithmic axis, 0 is drawn at the smallest positive value divided by this


def log_axis(axes: Axes, direction: Direction, low: float, high: float, *, zero_at: float | None = None) -> None:
    """Set a logarithmic axis from low to high with ticks at powers of ten, and optionally one for 0.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().add_subplot()
        >>> log_axis(axes, "x", 1, 2000)
        >>> [label.get_text() for label in axes.get_xticklabels()]
        ['1', '10', '100', '1,000']
    """
    axes.set(**{f"{direction}scale": "log", f"{direction}lim": (low, high)})
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    step = max(1, math.ceil((last - first + 1) / _MOST_TICKS))
    room = low if zero_at is None else zero_at * _BELOW / 1.5  # leaves room for the label 0
    exponents = [k for k in range(first, last + 1) if k % step == 0 and 10.0**k >= room * (1 - 1e-9)]
    zero = [] if zero_at is None else [zero_at]
    axis = axes.xaxis if direction == "x" else axes.yaxis
    axis.set_ticks([*zero, *(10.0**k for k in exponents)], labels=[*("0" for _ in zero), *map(power_of_ten, exponents)])
    axis.set_ticks([], minor=True)


def place_of_zero(values: Floats) -> float | None:
    """The position of 0 on a logarithmic axis of these values; None if no value, or every value, is 0.

    Example:
        >>> import numpy as np
        >>> place_of_zero(np.array([0.0, 0.3, 0.9])), place_of_zero(np.array([0.3]))
        (0.09999999999999999, None)
    """
    positive = values[values > 0]
    return float(positive.min()) / _BELOW if positive.size and positive.size < values.size else None


def grid_axis(axes: Axes, direction: Direction, values: Sequence[float]) -> None:
    """Set ticks at the cells 0, 1, ... of a grid, labelled with their values; with many cells only some."""
    step = max(1, math.ceil(len(values) / _MOST_TICKS)) if len(values) > 2 * _MOST_TICKS else 1
    axis = axes.xaxis if direction == "x" else axes.yaxis
    axis.set_ticks(range(0, len(values), step), labels=[signed(value) for value in values[::step]])
    axis.set_tick_params(length=0)


# No dates and no versions, so that the same figure gives the same bytes.
_METADATA: dict[str, dict[str, str | None]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": "kgprobe"},
    "svg": {"Date": None, "Creator": "kgprobe"},
    "png": {"Software": None},
}

ENDINGS = tuple(_METADATA)


def figure_type(path: str | PathLike[str]) -> str:
    """The file type of a figure's file name.

    Example:
        >>> figure_type("ranks.PDF")
        'pdf'
    """
    return ending_of(path, [f".{ending}" for ending in ENDINGS], "figure").removeprefix(".")


def save(figure: Figure, path: str | PathLike[str]) -> None:
    """Write a figure, atomically.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from kgprobe.report.figures.function_figures import draw_transformers
        >>> path = Path(tempfile.mkdtemp()) / "curves.pdf"
        >>> save(draw_transformers(), path)
        >>> path.read_bytes()[:5]
        b'%PDF-'
    """
    ending = figure_type(path)
    drawn = io.BytesIO()  # matplotlib's writers hide that a disk is full behind errors of their own
    with house_style():
        figure.savefig(drawn, format=ending, metadata=_METADATA[ending])
    with replacing(path) as temporary:
        temporary.write_bytes(drawn.getvalue())
