"""The report page as one HTML file: template, style, scripts, plotly and data."""

from __future__ import annotations

import base64
from importlib import resources
from os import PathLike
from typing import TYPE_CHECKING, Any

from kgprobe.comparison.lineup import Lineup
from kgprobe.errors import UsageError
from kgprobe.files import replacing
from kgprobe.report.page.payload import About, payload

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable


_COMPUTING = ("data", "probe", "statistics", "groups", "queries")

_BEFORE_VIEWS, _AFTER_VIEWS = ("state", "charts"), ("main",)


def write_page(path: str | PathLike[str], lineup: Lineup, about: About) -> list[str]:
    """Write the page; it appears under its name only when it is whole.

    Args:
        path: The file to write.
        lineup: The ranks of all models.
        about: What the page says besides the ranks.

    Returns:
        What a reader should know: what was left out, and what was compressed.
    """
    carried = payload(lineup, about)
    write_rendered(path, carried.packed, about.title, open_world=bool(about.benches))
    return carried.remarks


def write_rendered(
    path: str | PathLike[str], packed: bytes, title: str, *, ranks: bool = True, open_world: bool = False
) -> None:
    """Write the page around data; it appears under its name only when it is whole."""
    page = render(packed, title, ranks=ranks, open_world=open_world)
    with replacing(path) as temporary:
        # A title from the command line may hold bytes that are no text.
        temporary.write_text(page, encoding="utf-8", errors="replace", newline="\n")


def render(packed: bytes, title: str, *, ranks: bool = True, open_world: bool = False) -> str:
    """The page around data: the same text for the same data.

    Args:
        packed: The data.
        title: What stands at its head.
        ranks: Whether the data holds ranks to explore.
        open_world: Whether it holds benches of the open world.
    """
    jinja2, plotly = require_extras()
    folder = resources.files(__package__)
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string(_text(folder / "page.html"))
    return str(
        template.render(
            title=title,
            style=_text(folder / "style.css"),
            plotly=plotly.offline.get_plotlyjs(),
            script=script(),
            ranks=ranks,
            open_world=open_world,
            data=base64.b64encode(packed).decode("ascii"),
        )
    )


def script() -> str:
    """All scripts as one: files share a scope, for a page on a disk can import nothing.

    Example:
        >>> script().startswith(computing_script())
        True
    """
    folder = resources.files(__package__) / "script"
    views = sorted((file for file in (folder / "views").iterdir() if file.name.endswith(".js")), key=str)
    before, after = ([folder / f"{name}.js" for name in names] for names in (_BEFORE_VIEWS, _AFTER_VIEWS))
    return computing_script() + "".join(map(_text, [*before, *views, *after]))


def computing_script() -> str:
    """The scripts that compute: they touch nothing that is seen, and so run anywhere.

    Example:
        >>> "function openData" in computing_script()
        True
    """
    folder = resources.files(__package__) / "script"
    return "".join(_text(folder / f"{name}.js") for name in _COMPUTING)


def _text(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")


def require_extras() -> tuple[Any, Any]:
    """The libraries that a page is made with; complains now, before long work, where they are not installed."""
    try:
        import jinja2
        import plotly.offline
    except ImportError as error:
        library = str(error.name).partition(".")[0]
        raise UsageError(
            f"a page needs {library}, which is not installed", remedy="pip install 'kgprobe[report]'"
        ) from None
    return jinja2, plotly
