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
    """Write the page, atomically.

    Args:
        path: The file to write.
        lineup: The ranks of all models.
        about: The content of the page besides the ranks.

    Returns:
        Notes on what was left out or compressed.
    """
    data = payload(lineup, about)
    write_rendered(path, data.packed, about.title, open_world=bool(about.benches))
    return data.remarks


def write_rendered(
    path: str | PathLike[str], packed: bytes, title: str, *, ranks: bool = True, open_world: bool = False
) -> None:
    """Write the page with packed data, atomically."""
    page = render(packed, title, ranks=ranks, open_world=open_world)
    with replacing(path) as temporary:
        # A title from the command line may contain bytes that are not valid UTF-8.
        temporary.write_text(page, encoding="utf-8", errors="replace", newline="\n")


def render(packed: bytes, title: str, *, ranks: bool = True, open_world: bool = False) -> str:
    """The HTML of a page; the same data gives the same text."""
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
    """All scripts concatenated into one module, because a local page cannot import files.

    Example:
        >>> script().startswith(computing_script())
        True
    """
    folder = resources.files(__package__) / "script"
    views = sorted((file for file in (folder / "views").iterdir() if file.name.endswith(".js")), key=str)
    before, after = ([folder / f"{name}.js" for name in names] for names in (_BEFORE_VIEWS, _AFTER_VIEWS))
    return computing_script() + "".join(map(_text, [*before, *views, *after]))


def computing_script() -> str:
    """The scripts that compute, without access to the document, so that they also run in node.

    Example:
        >>> "function openData" in computing_script()
        True
    """
    folder = resources.files(__package__) / "script"
    return "".join(_text(folder / f"{name}.js") for name in _COMPUTING)


def _text(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")


def require_extras() -> tuple[Any, Any]:
    """jinja2 and plotly, which render the page; a UsageError if one is not installed."""
    try:
        import jinja2
        import plotly.offline
    except ImportError as error:
        library = str(error.name).partition(".")[0]
        raise UsageError(
            f"the HTML page needs {library}, which is not installed", remedy="pip install 'kgprobe[report]'"
        ) from None
    return jinja2, plotly
