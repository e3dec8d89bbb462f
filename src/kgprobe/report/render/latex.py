"""Tables in LaTeX: rules of booktabs, medals as coloured cells, marks raised without moving a digit."""

from __future__ import annotations

from kgprobe.report.render.grid import MEDALS, Cell, Column, Grid
from kgprobe.report.render.latex_text import latex_text

_PACKAGES = r"\usepackage{booktabs} \usepackage{graphicx} \usepackage{xcolor} \usepackage{colortbl}"
_EMPHASIS = {1: r"\textbf", 2: r"\underline", 3: r"\textit"}
_LEGEND = {1: "gold and bold, the best", 2: "silver and underlined, the second", 3: "bronze and italic, the third"}


def latex(grid: Grid) -> str:
    r"""The bare ``tabular``, which needs booktabs; nothing, where there is no column.

    Example:
        >>> from kgprobe.report.render.grid import grid_of
        >>> print(latex(grid_of([{"metric": "a_b", "value": 0.25}])), end="")
        \begin{tabular}{lr} % needs \usepackage{booktabs}
        \toprule
        metric & value \\
        \midrule
        a\_b & 0.2500 \\
        \bottomrule
        \end{tabular}
    """
    if not grid.columns:
        return ""
    begin, *rest = _tabular(grid)
    return "\n".join([rf"{begin} % needs \usepackage{{booktabs}}", *rest]) + "\n"


def _tabular(grid: Grid) -> list[str]:
    layout = "".join("r" if column.numeric else "l" for column in grid.columns)
    lines = [rf"\begin{{tabular}}{{{layout}}}", r"\toprule"]
    for level in range(grid.levels):
        lines += _headings(grid, level)
    lines.append(r"\midrule")
    cells = zip(*(line.cells for line in grid.lines), strict=True)
    columns = [_column(list(own), column) for own, column in zip(cells, grid.columns, strict=False)]
    for number, line in enumerate(grid.lines):
        if line.opens and number:
            lines.append(r"\midrule")
        lines.append(" & ".join(column[number] for column in columns) + r" \\")
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def latex_table(grid: Grid, *, caption: str | None = None, label: str | None = None, standalone: bool = False) -> str:
    r"""A ``table`` with the notes below, shrunk where it is wider than the column.

    Args:
        grid: The table.
        caption: LaTeX of the caption, used as it is.
        label: What ``\ref`` calls it.
        standalone: Whether to write a whole document.

    Example:
        >>> from kgprobe.report.render.grid import grid_of
        >>> print(latex_table(grid_of([{"value": 1}]), caption="One.", label="tab:one").splitlines()[1])
        \begin{table}
    """
    legend = "; ".join(_LEGEND[place] for place in grid.places)
    notes = [f"Places: {legend}.", *grid.notes] if legend else list(grid.notes)
    captioned = [rf"\caption{{{caption}}}"] * bool(caption) + [rf"\label{{{label}}}"] * bool(label)
    body = [
        rf"% needs {_PACKAGES}",
        r"\begin{table}",
        r"\centering",
        *captioned,
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        *_tabular(grid),
        "}",
        *([r"\par\smallskip", r"\begin{minipage}{\linewidth}\footnotesize"] if notes else []),
        *(latex_text(note) + r"\par" for note in notes),
        *([r"\end{minipage}"] if notes else []),
        r"\end{table}",
    ]
    return "\n".join(_document(body) if standalone else body) + "\n"


def _document(body: list[str]) -> list[str]:
    return [
        r"\documentclass{article}",
        r"\usepackage[margin=15mm]{geometry}",
        *_PACKAGES.split(),
        r"\pagestyle{empty}",
        r"\begin{document}",
        *body[1:],
        r"\end{document}",
    ]


def _headings(grid: Grid, level: int) -> list[str]:
    """A line of headings, and the rules below those that span columns."""
    cells, rules, start = [], [], 1
    for heading, width in grid.spans(level):
        text = latex_text(heading)
        alone = width == 1 and not grid.columns[start - 1].numeric
        cells.append(text if alone or not text or grid.levels == 1 else rf"\multicolumn{{{width}}}{{c}}{{{text}}}")
        if text and level + 1 < grid.levels:
            rules.append(rf"\cmidrule(lr){{{start}-{start + width - 1}}}")
        start += width
    return [" & ".join(cells) + r" \\", *(["".join(rules)] if rules else [])]


def _column(cells: list[Cell], column: Column) -> list[str]:
    """The cells of a column; what stands behind the numbers takes the same room in each."""
    if not column.numeric:
        return [latex_text(cell.text) for cell in cells]
    shown = [_number(cell) for cell in cells]
    for part, form in _BESIDE.items():
        texts = [getattr(cell, part) for cell in cells]
        widest = max(texts, key=len)
        shown = [before + _beside(text, widest, form) for before, text in zip(shown, texts, strict=True)]
    return shown


_BESIDE = {
    "deviation": r"{{\footnotesize$\pm${}}}",
    "interval": r" {{\footnotesize {}}}",
    "marks": r"\textsuperscript{{{}}}",
}


def _number(cell: Cell) -> str:
    text = _signed(cell.text)
    if cell.place not in MEDALS:
        return text
    return rf"\cellcolor[HTML]{{{MEDALS[cell.place]}}}{_EMPHASIS[cell.place]}{{{text}}}"


def _beside(text: str, widest: str, form: str) -> str:
    shown, room = (form.format(_signed(one)) if one else "" for one in (text, widest))
    if len(text) == len(widest):
        return shown
    return (rf"\rlap{{{shown}}}" if text else "") + rf"\hphantom{{{room}}}"


def _signed(text: str) -> str:
    return latex_text(text.replace("-", "\N{MINUS SIGN}"))
