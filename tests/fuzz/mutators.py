"""Mutations of inputs: of bytes, of lines and fields, of JSON, and of whole files in a folder."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import PurePath
from random import Random
from typing import Any

from fuzz.inputs import Files, Kind

Mutator = Callable[[bytes, Random, bytes], bytes]
"""(content, random generator, content of another valid input) -> changed content."""

NUMBERS = (
    *(
        "0",
        "-0",
        "1",
        "-1",
        "2",
        "3.0",
        "2.5",
        "007",
        "+1",
        ".5",
        "1.",
        "1_0",
        "0x1",
        "\uff11",
        "1e2",
        "1e308",
        "-1e308",
    ),
    *("1e-320", "1e400", "nan", "NaN", "inf", "-Infinity", "2147483648", "4294967296", "9007199254740993"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616"),
    *("9" * 19, "1" + "0" * 400, "0" * 400, "-" + "9" * 400, "0." + "3" * 400, "9" * 5000),
)

TEXTS = (
    *("", " ", "\t", "\x00", "\r", "\r\n", "\n", "\n\n", "é", "e\u0301", "\ufeff", "\u202e", "\u2028", "\xa0", "🙂"),
    *("\x1b[31m", "'", '"', '""', '"a""b"', "\\", "\\N", "NA", "None", "null", "true", "=1+1", "#", "a" * 300, "?"),
    *("head", "tail", "h", "../x", "/", ",", ";", ":", "@", "(", ")", "=", "%s", "{}", "e0", "r0", "side"),
)

ODD_JSON = (
    *("null", "true", "false", "[]", "{}", '""', '"a"', '"\\ud800"', '"\\u0000"', '"é"', "NaN", "Infinity", "-0"),
    *("0", "1", "-1", "2.5", "1.0", "1e308", "1e400", "-1e400", "9223372036854775807", "9223372036854775808"),
    *("18446744073709551616", "1" + "0" * 400, "9" * 5000, "[[]]", "[1]", '{"a": 1}', '["a"]', '[["a", 1]]'),
    *("[" * 3000 + "]" * 3000, '{"a":' * 3000 + "1" + "}" * 3000, '"' + "x" * 2000 + '"', '"head"', '"model"'),
)


def flip_bits(content: bytes, random: Random, _other: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 8)) if content else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def cut(content: bytes, random: Random, _other: bytes) -> bytes:
    """Remove the end, the beginning or a part."""
    start, stop = sorted(random.randrange(len(content) + 1) for _ in range(2))
    return random.choice((content[:start], content[stop:], content[:start] + content[stop:]))


def insert(content: bytes, random: Random, _other: bytes) -> bytes:
    at = random.randrange(len(content) + 1)
    start, stop = sorted(random.randrange(len(content) + 1) for _ in range(2))
    again = content[start : min(stop, start + 64)]
    odd = random.choice((random.randbytes(random.randint(1, 8)), again, b"\0" * 8, b"\xff" * 4, b"\xc3("))
    return content[:at] + odd + content[at:]


def overwrite(content: bytes, random: Random, _other: bytes) -> bytes:
    """Set a number of 1 to 8 bytes to an extreme value."""
    at, width = random.randrange(len(content) + 1), random.choice((1, 2, 4, 8))
    value = random.choice((0, 1, (1 << 8 * width) - 1, 1 << (8 * width - 1), (1 << (8 * width - 1)) - 1))
    return content[:at] + value.to_bytes(width, "little") + content[at + width :]


def splice(content: bytes, random: Random, other: bytes) -> bytes:
    return content[: random.randrange(len(content) + 1)] + other[random.randrange(len(other) + 1) :]


BYTES: tuple[Mutator, ...] = (flip_bits, flip_bits, cut, insert, overwrite, splice)


def change_lines(content: bytes, random: Random, other: bytes) -> bytes:
    """Repeat, remove, swap, add or end lines differently."""
    lines = content.split(b"\n")
    at, to = random.randrange(len(lines)), random.randrange(len(lines))
    step = random.randrange(8)
    if step == 0:
        lines.insert(to, lines[at])
    elif step == 1:
        del lines[at]
    elif step == 2:
        lines[at], lines[to] = lines[to], lines[at]
    elif step == 3:
        lines.insert(at, random.choice((b"", b" ", b"\t", b"\t\t", b"\xef\xbb\xbf", b"#", b"\xa0")))
    elif step == 4:
        lines.insert(at, random.choice(other.split(b"\n")))
    elif step == 5:
        return content.replace(b"\n", random.choice((b"\r\n", b"\r", b"\n\n")))
    elif step == 6:
        return random.choice((content.rstrip(b"\n"), b"\xef\xbb\xbf" + content, content + b"\n", content + b"\x1a"))
    else:
        lines[at] += random.choice((b"\r", b" ", b"\t", b"x" * 140_000 if random.random() < 0.1 else b"x"))
    return b"\n".join(lines)


def change_field(content: bytes, random: Random, _other: bytes) -> bytes:
    """Replace, remove, add or swap fields of one line, or of every line."""
    delimiter = random.choice([d for d in (b"\t", b",", b"=", b" ") if d in content] or [b"\t"])
    lines = [line.split(delimiter) for line in content.split(b"\n")]
    chosen = lines if random.random() < 0.1 else [random.choice(lines)]
    at, to, odd, step = random.randrange(12), random.randrange(12), odd_text(random), random.randrange(7)
    for fields in chosen:
        i, j = at % len(fields), to % len(fields)
        if step < 4:
            fields[i] = odd
        elif step == 4:
            fields.insert(i, random.choice((odd, fields[j])))
        elif step == 5:
            del fields[i]
        else:
            fields[i], fields[j] = fields[j], fields[i]
    return b"\n".join(delimiter.join(fields) for fields in lines)


def odd_text(random: Random) -> bytes:
    return random.choice(NUMBERS if random.random() < 0.6 else TEXTS).encode()


def change_number(content: bytes, random: Random, _other: bytes) -> bytes:
    """Replace one number in a text."""
    found = list(re.finditer(rb"-?\d+(\.\d+)?", content))
    if not found:
        return content + odd_text(random)
    one = random.choice(found)
    return content[: one.start()] + random.choice(NUMBERS).encode() + content[one.end() :]


def insert_text(content: bytes, random: Random, _other: bytes) -> bytes:
    at = random.randrange(len(content) + 1)
    return content[:at] + odd_text(random) + content[at + random.choice((0, 0, 1)) :]


LINES: tuple[Mutator, ...] = (change_lines, change_field, change_field, change_number)
WORDS: tuple[Mutator, ...] = (change_number, change_number, insert_text, insert_text)


SEAL = "sha256"
"""The entry of a JSON object with the hash of all others."""


def json_hash(sealed: Any) -> str:
    """The hash of a JSON object: of its text with sorted keys."""
    return hashlib.sha256(json.dumps(sealed, sort_keys=True).encode()).hexdigest()


def change_json(content: bytes, random: Random, other: bytes) -> bytes:
    """Replace, remove, repeat, rename or wrap one value of a JSON text."""
    tree = json.loads(content)
    places = list(_places(tree))
    if not places:
        return random.choice(ODD_JSON).encode()
    parent, key = random.choice(places)
    step = random.randrange(10)
    odd = random.choice(ODD_JSON)
    if step == 0:
        del parent[key]
    elif step == 1:
        inner, place = random.choice(places)
        parent[key] = inner[place] if inner is not parent else [parent[key]]
    elif step == 2 and isinstance(parent, dict):
        parent[random.choice(TEXTS)] = parent.pop(key)
    elif step == 2:
        parent.insert(key, parent[key])
    elif step == 3:
        parent[key] = random.choice(([parent[key]], {"a": parent[key]}, str(parent[key]), [parent[key]] * 2))
    else:
        parent[key] = _MARK
    if isinstance(tree, dict) and SEAL in tree and random.random() < 0.7:
        # A hash that is right again, so that the changed value is seen.
        sealed = {name: value for name, value in tree.items() if name != SEAL}
        known = json.dumps(sealed).replace(json.dumps(_MARK), odd)
        with suppress(ValueError, RecursionError):
            tree[SEAL] = json_hash(json.loads(known))
    text = json.dumps(tree, indent=random.choice((None, None, 1)), ensure_ascii=random.random() < 0.5)
    if step == 4 and isinstance(parent, dict):  # the same key twice
        text = text.replace(json.dumps(_MARK), f"1, {json.dumps(str(key))}: {json.dumps(_MARK)}")
    return text.replace(json.dumps(_MARK), odd).encode("utf-8", "surrogatepass")


_MARK = "@odd value@"


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Every value of a JSON tree, as the list or object that holds it and its index or key."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        keys: Sequence[Any] = (
            list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
        )
        found += [(node, key) for key in keys]
        waiting += [node[key] for key in keys]
    return found


def change_json_line(content: bytes, random: Random, other: bytes) -> bytes:
    lines = content.split(b"\n")
    at = random.randrange(len(lines))
    lines[at] = change_json(lines[at], random, other)
    return b"\n".join(lines)


def structured(name: str) -> Sequence[Mutator]:
    """The mutators that know the format of a file, by its name."""
    from fuzz.containers import CONTAINERS

    suffixes = PurePath(name).suffixes
    if suffixes[-1:] == [".gz"]:
        inner = structured(name.removesuffix(".gz"))
        return [_compressed(mutator) for mutator in inner]
    return CONTAINERS.get("".join(suffixes[-1:]), LINES)


def _compressed(mutator: Mutator) -> Mutator:
    def change(content: bytes, random: Random, other: bytes) -> bytes:
        return gzip.compress(mutator(gzip.decompress(content), random, gzip.decompress(other)), mtime=0)

    return change


def make_input(kind: Kind, seed: int, index: int) -> Files:
    """The input with this number: a valid one, mutated. It depends on nothing else."""
    random = Random(f"{kind.name}/{seed}/{index}")
    return mutated(random.choice(kind.seeds), random, random.choice(kind.seeds))


def mutated(files: Files, random: Random, other: Files) -> Files:
    """An input changed in one to four places; one in fifty is left as it is."""
    if random.random() < 0.02:
        return files
    changed = dict(files)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        if len(changed) > 1 and random.random() < 0.06:
            _change_folder(changed, random)
        elif changed:
            name = random.choice(sorted(changed))
            changed[name] = _change_file(name, changed[name], random, other.get(name, changed[name]))
    return changed


def _change_file(name: str, content: bytes, random: Random, other: bytes) -> bytes:
    mutators = structured(name) if random.random() < 0.75 else BYTES
    try:
        return random.choice(mutators)(content, random, other)
    except Exception:  # the content has lost its format by an earlier change
        return random.choice(BYTES)(content, random, other)


def _change_folder(files: dict[str, bytes], random: Random) -> None:
    """Remove, empty or copy a file."""
    name, other = random.choice(sorted(files)), random.choice(sorted(files))
    step = random.randrange(4)
    if step == 0:
        del files[name]
    elif step == 1:
        files[name] = b""
    elif step == 2:
        files[name] = files[other]
    else:
        files[f"{name}.gz"] = gzip.compress(files[name], mtime=0)
