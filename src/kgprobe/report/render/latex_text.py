"""Any text as LaTeX that every engine compiles: plain ASCII, and for what LaTeX has no letter, its code point."""
# ruff: noqa: RUF001 (letters that look like others are what this file is about)

from __future__ import annotations

import re
import unicodedata

_SIGNS = {c: "\\" + c for c in "&%$#_{}"} | {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "`": r"\textasciigrave{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''",
    "[": "{[}", "]": "{]}", "*": "{*}",  # after the end of a row they would be read as its options
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
_LATIN |= {"ETA": "H", "RHO": "P", "CHI": "X"}
"""Capitals that LaTeX does not have because Latin ones look the same."""
_KNOWN_GREEK = set("αβγδεζηθικλμνξοπρςστυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ")
_RAISED = re.compile(r"<(super|sub)> ([0-9A-F]{4})")
_LIGATURES = re.compile(r"-(?=-)|'(?=')")


def latex_text(text: str) -> str:
    r"""A text as LaTeX shows it with no package and no font beyond its own.

    Letters with accents, Greek letters and common signs become commands. Of anything else (other scripts, emoji), the
    code point is written, so that different names stay different.

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
