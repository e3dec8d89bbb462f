"""Tables in LaTeX, and escaping of any text for LaTeX."""

from __future__ import annotations

import re
import unicodedata

from kgprobe.report.grid import MEDALS, Cell, Column, Grid

# ruff: noqa: RUF001 (Greek letters on purpose)

_SIGNS = {c: "\\" + c for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "`": r"\textasciigrave{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''",
    "[": "{[}", "]": "{]}", "*": "{*}",  # after \\ they would be read as its options
    "†": r"\textdagger{}", "‡": r"\textdaggerdbl{}", "±": r"$\pm$", "−": "$-$", "×": r"$\times$", "·": r"$\cdot$",
    "≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "∞": r"$\infty$", "↑": r"$\uparrow$", "↓": r"$\downarrow$",
    "←": r"$\leftarrow$", "→": r"$\rightarrow$", "°": r"$^\circ$", "µ": r"$\mu$", "§": r"\S{}", "©": r"\copyright{}",
    "–": "--", "—": "---", "…": r"\ldots{}", "‘": "`", "’": "'", "“": "``", "”": "''", "•": r"\textbullet{}",
    "\N{NO-BREAK SPACE}": "~", "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}",
    "ø": r"\o{}", "Ø": r"\O{}", "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}", "¡": "!`", "¿": "?`", "£": r"\pounds{}",
}  # fmt: skip

_PLAIN = {c for c in map(chr, range(0x20, 0x7F)) if c not in _SIGNS}

_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0323": "d", "\u0327": "c", "\u0331": "b",
}  # fmt: skip

_GREEK = re.compile(r"GREEK (SMALL|CAPITAL) LETTER ([A-Z]+|FINAL SIGMA)")
_COMMANDS = {"LAMDA": "lambda", "EPSILON": "varepsilon", "PHI": "varphi", "FINAL SIGMA": "varsigma"}
_LATIN = {name: name[0] for name in ("ALPHA", "BETA", "EPSILON", "ZETA", "IOTA", "KAPPA", "MU", "NU", "OMICRON", "TAU")}

_LATIN |= {"ETA": "H", "RHO": "P", "CHI": "X"}  # Greek capitals for which LaTeX uses Latin letters

_KNOWN_GREEK = set("αβγδεζηθικλμνξοπρςστυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ")
_RAISED = re.compile(r"<(super|sub)> ([0-9A-F]{4})")
_LIGATURES = re.compile(r"-(?=-)|'(?=')")


def latex_text(text: str) -> str:
    r"""A text escaped for LaTeX without additional packages or fonts.

    Accented letters, Greek letters and common signs become commands. Other characters (other scripts, emoji) are
    written as code points, so that different names stay different.

    Example:
        >>> latex_text("R&D_1 50% é α"), latex_text("\N{CJK UNIFIED IDEOGRAPH-4E2D}")
        ("R\\&D\\_1 50\\% \\'{e} $\\alpha$", '\\texttt{U+4E2D}')
    """
    composed = unicodedata.normalize("NFC", text.replace("\0", " "))
    apart = _LIGATURES.sub(lambda found: found[0] + "\0", composed)
    return "".join(map(_letter, apart)).replace("\0", "{}")


def _letter(letter: str) -> str:
    if letter in _PLAIN or letter == "\0":
        return letter
    if letter in _SIGNS:
        return _SIGNS[letter]
    if letter in _KNOWN_GREEK:
        return _greek(letter)
    return _raised(letter) or _accented(letter) or f"\\texttt{{U+{ord(letter):04X}}}"


def _greek(letter: str) -> str:
    found = _GREEK.fullmatch(unicodedata.name(letter))
    assert found is not None
    case, name = found.groups()
    if name == "OMICRON" or (case == "CAPITAL" and name in _LATIN):
        return rf"$\mathrm{{{_LATIN[name] if case == 'CAPITAL' else 'o'}}}$"
    command = _COMMANDS.get(name, name.lower()) if case == "SMALL" else name.replace("LAMDA", "LAMBDA").capitalize()
    return f"$\\{command}$"


def _raised(letter: str) -> str:
    found = _RAISED.fullmatch(unicodedata.decomposition(letter))
    plain = chr(int(found[2], 16)) if found else ""
    if found is None or plain not in _PLAIN:
        return ""
    return rf"${'^' if found[1] == 'super' else '_'}{{\mathrm{{{plain}}}}}$"


def _accented(letter: str) -> str:
    parts = unicodedata.normalize("NFD", letter)
    base, accents = parts[0], parts[1:]
    if not accents or base not in _PLAIN or not set(accents) <= set(_ACCENTS):
        return ""
    for accent in accents:
        base = f"\\{_ACCENTS[accent]}{{{base}}}"
    return base


_PACKAGES = r"\usepackage{booktabs} \usepackage{graphicx} \usepackage{xcolor} \usepackage{colortbl}"
_FITTED = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
_EMPHASIS = {1: r"\textbf", 2: r"\underline", 3: r"\textit"}
_LEGEND = {1: "bold, the best", 2: "underlined, the second", 3: "italic, the third"}
_COLOURS = {1: "gold and ", 2: "silver and ", 3: "bronze and "}
_COLOURED = re.compile(r"\\cellcolor\[HTML\]\{\w+\}")


def latex(grid: Grid) -> str:
    r"""The ``tabular`` of a table, which needs booktabs, with its notes as comments; empty without columns.

    Example:
        >>> from kgprobe.report.grid import grid_of
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
    notes = [f"% {note}" for note in grid.notes]
    return "\n".join([rf"{begin} % needs \usepackage{{booktabs}}", *rest, *notes]) + "\n"


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


def latex_table(
    grid: Grid, *, caption: str | None = None, label: str | None = None, plain: bool = False, standalone: bool = False
) -> str:
    r"""A ``table`` float with the notes below, scaled down if it is wider than the text column.

    Args:
        grid: The table.
        caption: LaTeX source of the caption.
        label: The label for ``\ref``.
        plain: Whether to leave out colours and scaling, so that only booktabs is needed.
        standalone: Whether to write a complete document.

    Example:
        >>> from kgprobe.report.grid import grid_of
        >>> print(latex_table(grid_of([{"value": 1}]), caption="One.", label="tab:one").splitlines()[1])
        \begin{table}
    """
    legend = "; ".join(("" if plain else _COLOURS[place]) + _LEGEND[place] for place in grid.places)
    notes = [f"Places: {legend}.", *grid.notes] if legend else list(grid.notes)
    captioned = [rf"\caption{{{caption}}}"] * bool(caption) + [rf"\label{{{label}}}"] * bool(label)
    body = [
        rf"% needs {_PACKAGES.split()[0] if plain else _PACKAGES}",
        r"\begin{table}",
        r"\centering",
        *captioned,
        *([_COLOURED.sub("", line) for line in _tabular(grid)] if plain else [_FITTED, *_tabular(grid), "}"]),
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
    """A heading line, and the rules below headings that span columns."""
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
    """The cells of a column; annotations have the same width in each, so that numbers align."""
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
