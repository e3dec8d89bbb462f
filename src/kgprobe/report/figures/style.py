"""The look of every figure: sizes, colours, markers, axes, and saving."""

from __future__ import annotations

import math
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from kgprobe.arrays import Floats
from kgprobe.errors import UsageError
from kgprobe.files import replacing

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLUMN, PAGE = 3.4, 7.0

"""Width in inches of a column and of a page of two columns."""

ALPHA, BETA, MINUS = "\N{GREEK SMALL LETTER ALPHA}", "\N{GREEK SMALL LETTER BETA}", "\N{MINUS SIGN}"

SHARPNESS, ROBUSTNESS = f"sharpness {ALPHA}", f"robustness {BETA}"

"""What axes of alpha and of beta are called."""

HEAT = "cividis"

"""A colour map that is perceptually uniform, also for the colour-blind and in grey."""

_SETTINGS: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same letters on every machine
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "figure.titlesize": 8,
    "text.parse_math": False,  # a label may hold dollar signs; it is never a formula
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
    """How a model is drawn everywhere, so that it is known by shape where colours are not seen."""

    colour: str
    line: Any
    marker: str
    hatch: str


# Okabe and Ito (2008), in an order in which neighbours differ in brightness too; yellow, too bright for lines, is last.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#56B4E9", "#D55E00", "#CC79A7", "#000000", "#F0E442")

_LINES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (3, 1, 1, 1, 1, 1)))

_MARKERS = ("o", "s", "^", "D", "v", "P", "X")

_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++")


def looks(models: Sequence[str]) -> dict[str, Look]:
    """A look for each model; colour and marker together are different for up to 56 models.

    Example:
        >>> looks(["RotatE", "HousE"])["HousE"]
        Look(colour='#E69F00', line=(0, (5, 1.5)), marker='s', hatch='////')
    """
    return {
        model: Look(
            _COLOURS[i % len(_COLOURS)],
            _LINES[i % len(_LINES)],
            _MARKERS[i % len(_MARKERS)],
            _HATCHES[i % len(_HATCHES)],
        )
        for i, model in enumerate(models)
    }


def plain(text: str, longest: int = 40) -> str:
    r"""A label that can be drawn on one line and written to any file: without control characters, and not endless.

    Example:
        >>> plain("two\nlines"), plain("$x_1$"), plain("a" * 50, 5)
        ('two lines', '$x_1$', 'aa…aa')
    """
    drawable = "".join(_REPLACED.get(unicodedata.category(c), c) if c not in _NO_XML else "\ufffd" for c in text)
    kept = longest - 1  # of what is too long the middle goes: names often differ in their ends
    return drawable if len(drawable) <= longest else drawable[: (kept + 1) // 2] + "…" + drawable[-(kept // 2) :]


_REPLACED = {"Cc": " ", "Cs": "\ufffd", "Zl": " ", "Zp": " "}

_NO_XML = "\ufffe\uffff"


@contextmanager
def house_style() -> Iterator[None]:
    """Draw or write in the style of the house, whatever the user's own settings are; afterwards those hold again."""
    try:
        from matplotlib import style
    except ImportError:
        raise UsageError("figures need matplotlib", remedy="pip install 'kgprobe[report]'") from None
    with warnings.catch_warnings(), style.context(["default", _SETTINGS]):
        # A letter that the font does not have is drawn as a box: labels come from data, and are no reason to complain.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


_Given = ParamSpec("_Given")


def in_style(draw: Callable[_Given, Figure]) -> Callable[_Given, Figure]:
    """Make a function draw in the style of the house."""

    @wraps(draw)
    def drawn(*args: _Given.args, **kwargs: _Given.kwargs) -> Figure:
        with house_style():
            figure = draw(*args, **kwargs)
            figure.draw_without_rendering()  # ticks come to be when they are first drawn, and keep the style of then
            figure.set_layout_engine("none")  # a layout that is made anew for every file would move a little each time
            return figure

    return drawn


def panels(width: float, height: float, rows: int = 1, columns: int = 1, **shared: Any) -> tuple[Figure, list[Axes]]:
    """A figure that no window and no global state knows of, and its axes row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, **shared)
    return figure, list(grid.ravel())


def legend_above(figure: Figure, handles: Sequence[Artist], names: Sequence[str]) -> None:
    """A legend over the whole figure, in as many columns as its longest name leaves room for."""
    letter, handle = 0.055, 0.55  # inches, in the size of legends
    fitting = int(figure.get_figwidth() / (letter * max(map(len, names)) + handle))
    figure.legend(handles, names, loc="outside upper center", ncols=max(1, min(fitting, len(names))))


def refuse_many(what: str, count: int, most: int = 12) -> None:
    """Refuse more curves or panels than anybody could tell apart."""
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
    """A power of ten as it is written by hand.

    Example:
        >>> [power_of_ten(k) for k in (-5, 0, 3)]
        ['10⁻⁵', '1', '1,000']
    """
    return f"{10**exponent:,}" if 0 <= exponent <= 4 else "10" + str(exponent).translate(_RAISED)


def setting(*, alpha: float | None = None, beta: float | None = None) -> str:
    """The perspective of a curve or panel.

    Example:
        >>> setting(alpha=-0.5, beta=0), setting(beta=0.8)
        ('α = −0.5, β = 0', 'β = 0.8')
    """
    given = {ALPHA: alpha, BETA: beta}
    return ", ".join(f"{letter} = {signed(value)}" for letter, value in given.items() if value is not None)


def signed(number: float) -> str:
    """A number with a true minus sign, for titles and ticks.

    Example:
        >>> signed(-0.5), signed(1.0)
        ('−0.5', '1')
    """
    return f"{number:g}".replace("-", MINUS)


def scientific(number: float) -> str:
    """A positive number in two digits, with a power of ten where it is small.

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

_BELOW = 3.0

"""On a logarithmic axis, 0 stands so many times below the smallest value that is not 0."""


def log_axis(axes: Axes, direction: Direction, low: float, high: float, *, zero_at: float | None = None) -> None:
    """A logarithmic axis from low to high whose ticks are powers of ten, and 0 where it has a place.

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
    room = low if zero_at is None else zero_at * _BELOW / 1.5  # where 0 is written nothing else fits
    exponents = [k for k in range(first, last + 1) if k % step == 0 and 10.0**k >= room * (1 - 1e-9)]
    zero = [] if zero_at is None else [zero_at]
    axis = axes.xaxis if direction == "x" else axes.yaxis
    axis.set_ticks([*zero, *(10.0**k for k in exponents)], labels=[*("0" for _ in zero), *map(power_of_ten, exponents)])
    axis.set_ticks([], minor=True)


def place_of_zero(values: Floats) -> float | None:
    """Where 0 stands on a logarithmic axis of these values; None where none is 0 or nothing else is there.

    Example:
        >>> import numpy as np
        >>> place_of_zero(np.array([0.0, 0.3, 0.9])), place_of_zero(np.array([0.3]))
        (0.09999999999999999, None)
    """
    positive = values[values > 0]
    return float(positive.min()) / _BELOW if positive.size and positive.size < values.size else None


def grid_axis(axes: Axes, direction: Direction, values: Sequence[float]) -> None:
    """Ticks at the cells 0, 1, ... of a grid, named by their values; only some, where there are many."""
    step = max(1, math.ceil(len(values) / _MOST_TICKS)) if len(values) > 2 * _MOST_TICKS else 1
    axis = axes.xaxis if direction == "x" else axes.yaxis
    axis.set_ticks(range(0, len(values), step), labels=[signed(value) for value in values[::step]])
    axis.set_tick_params(length=0)


# Neither dates nor versions, so that the bytes depend on the figure alone.
_METADATA: dict[str, dict[str, str | None]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": "kgprobe"},
    "svg": {"Date": None, "Creator": "kgprobe"},
    "png": {"Software": None},
}

ENDINGS = tuple(_METADATA)


def ending_of(path: str | PathLike[str]) -> str:
    """The kind of file that a name asks for.

    Example:
        >>> ending_of("ranks.PDF")
        'pdf'
    """
    ending = Path(path).suffix.lower().removeprefix(".")
    if ending not in _METADATA:
        known = ", ".join(f".{known}" for known in ENDINGS)
        raise UsageError(f"{path}: a figure cannot be written to this kind of file", remedy=f"end its name in {known}")
    return ending


def save(figure: Figure, path: str | PathLike[str]) -> None:
    """Write a figure; the file appears under its name only when it is whole.

    Example:
        >>> import tempfile
        >>> from kgprobe.report.figures.function_figures import draw_transformers
        >>> path = Path(tempfile.mkdtemp()) / "curves.pdf"
        >>> save(draw_transformers(), path)
        >>> path.read_bytes()[:5]
        b'%PDF-'
    """
    ending = ending_of(path)
    with house_style(), replacing(path) as temporary:
        figure.savefig(temporary, format=ending, metadata=_METADATA[ending])
