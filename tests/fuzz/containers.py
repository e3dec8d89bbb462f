"""Mutations of binary formats: Parquet tables, NumPy arrays, zip archives and safetensors."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import io
import json
import pickletools
import re
import struct
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.lib import format as npy

from fuzz.mutators import BYTES, LINES, TEXTS, WORDS, Mutator, change_json, change_json_line, flip_bits

INTEGERS = (0, 1, -1, 2, 3, 2**31, 2**32, 2**53 + 1, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 0.5, 1.0, 2.5, -1.0, 1e308, 5e-324, 2.0**63, float("nan"), float("inf"), float("-inf"))


def read_table(content: bytes) -> pa.Table:
    return pq.ParquetFile(pa.BufferReader(content)).read()


def table_bytes(table: pa.Table, random: Random | None = None) -> bytes:
    """A table as a Parquet file, with any of the options that a writer may choose."""
    options: dict[str, Any] = {"compression": "none", "write_page_checksum": True}
    if random is not None and random.random() < 0.3:
        options = {
            "compression": random.choice(("none", "snappy", "zstd", "gzip")),
            "write_page_checksum": random.random() < 0.5,
            "row_group_size": random.choice((1, 2, 1000)),
            "use_dictionary": random.random() < 0.5,
            "version": random.choice(("1.0", "2.4", "2.6")),
            "data_page_version": random.choice(("1.0", "2.0")),
            "store_schema": random.random() < 0.7,
        }
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def change_table(content: bytes, random: Random, other: bytes) -> bytes:
    """Change columns, types, values, rows or the metadata of a Parquet file."""
    table = read_table(content)
    change = random.choice((_set_value, _set_value, _set_value, _retype, _retype, _change_columns, _change_rows))
    if random.random() < 0.2:
        change = _change_metadata
    with np.errstate(over="ignore"):  # half floats
        return table_bytes(change(table, random), random)


def _build(columns: Sequence[tuple[str | bytes, Any]], metadata: Mapping[bytes, bytes] | None) -> pa.Table:
    """A table whose columns may share a name."""
    fields = [pa.field(name, column.type) for name, column in columns]
    return pa.Table.from_arrays([column for _, column in columns], schema=pa.schema(fields, metadata=metadata))


def _columns(table: pa.Table) -> list[tuple[str | bytes, Any]]:
    return list(zip(table.column_names, table.columns, strict=True))


def _set_value(table: pa.Table, random: Random) -> pa.Table:
    """One value of one column becomes null, an extreme value, or one of another row."""
    columns = _columns(table)
    at = random.randrange(len(columns))
    name, column = columns[at]
    values = column.to_pylist()
    if not values:
        return table
    row = random.randrange(len(values))
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if random.random() < 0.2:
        values[row] = None
    elif pa.types.is_integer(kind):
        values[row] = random.choice((*INTEGERS, random.choice(values)))
    elif pa.types.is_floating(kind):
        values[row] = random.choice((*FLOATS, random.choice(values)))
    elif pa.types.is_boolean(kind):
        values[row] = not values[row]
    else:
        values[row] = random.choice((*TEXTS, str(random.choice(values))))
    columns[at] = name, pa.array(values, kind)
    return _build(columns, table.schema.metadata)


def _wrapped(make: Callable[[Any], Any], kind: pa.DataType | None = None) -> Callable[[Any], Any]:
    return lambda column: pa.array([None if v is None else make(v) for v in column.to_pylist()], kind)


_TYPES: tuple[Callable[[Any], Any], ...] = (
    *(lambda column, kind=kind: column.cast(kind) for kind in (pa.int8(), pa.int32(), pa.uint64(), pa.float32())),
    *(lambda column, kind=kind: column.cast(kind) for kind in (pa.float64(), pa.string(), pa.large_string())),
    _wrapped(lambda value: [value]),
    _wrapped(lambda value: {"a": value}),
    _wrapped(lambda value: str(value).encode(), pa.binary()),
    _wrapped(bool),
    _wrapped(lambda value: decimal.Decimal(int(value)), pa.decimal128(20, 2)),
    _wrapped(lambda value: datetime.datetime.fromtimestamp(int(value), datetime.UTC), pa.timestamp("s")),
    _wrapped(np.float16, pa.float16()),
    lambda column: pa.nulls(len(column)),
    lambda column: column.dictionary_encode(),
    lambda column: column.cast(pa.string()).dictionary_encode(),
)


def _retype(table: pa.Table, random: Random) -> pa.Table:
    columns = _columns(table)
    at = random.randrange(len(columns))
    name, column = columns[at]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    columns[at] = name, random.choice(_TYPES)(column)
    return _build(columns, table.schema.metadata)


def _change_columns(table: pa.Table, random: Random) -> pa.Table:
    """Remove, repeat, rename or add a column."""
    columns = _columns(table)
    at = random.randrange(len(columns))
    name, column = columns[at]
    step = random.randrange(5)
    if step == 0:
        del columns[at]
    elif step == 1:
        columns.insert(random.randrange(len(columns) + 1), (name, random.choice(columns)[1]))
    elif step == 2:
        columns[at] = random.choice((b"\xff\xfe", b"a\xc3(", *TEXTS, str(name).upper(), f" {name}")), column
    elif step == 3:
        columns.append((random.choice(("label", "label", b"\xff", "seed", "ties", "", *TEXTS)), column))
    else:
        random.shuffle(columns)
    return _build(columns, table.schema.metadata)


def _change_rows(table: pa.Table, random: Random) -> pa.Table:
    """Repeat, remove or shuffle rows."""
    rows = list(range(len(table)))
    step = random.randrange(4)
    if step == 0 and rows:
        rows.append(random.choice(rows))
    elif step == 1 and rows:
        rows.remove(random.choice(rows))
    elif step == 2:
        rows = []
    else:
        random.shuffle(rows)
    return table.take(pa.array(rows, pa.int64()))


def _change_metadata(table: pa.Table, random: Random) -> pa.Table:
    metadata = dict(table.schema.metadata or {})
    own = metadata.get(b"kgprobe", b'{"schema": 1, "model": "a"}')
    metadata[b"kgprobe"] = random.choice((change_json, change_json, flip_bits))(own, random, own)
    return table.replace_schema_metadata(random.choice((metadata, metadata, metadata, {}, {b"\xff": b"\xff"})))


def array_bytes(array: Any) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array, allow_pickle=False)
    return sink.getvalue()


def change_array(content: bytes, random: Random, _other: bytes) -> bytes:
    """Change the header, the type, the shape or a value of a .npy file."""
    if random.random() < 0.5:
        return _change_npy_header(content, random)
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.dtype.kind in "US":
        return array_bytes(np.array(change_json(str(array).encode(), random, b"").decode("utf-8", "replace")))
    step = random.randrange(5)
    if step < 2 and array.size:
        array = array.copy()
        with np.errstate(over="ignore"):
            array.flat[random.randrange(array.size)] = random.choice(
                FLOATS if array.dtype.kind == "f" else INTEGERS[:5]
            )
    elif step == 2:
        kinds = ("<f2", "<f4", ">f4", "<f8", "<i4", "<i8", ">i8", "<u8", "?", "<c8", "<U3", "S2", "<M8[s]")
        with np.errstate(all="ignore"):
            array = array.astype(random.choice(kinds))
    elif step == 3:
        array = random.choice(
            (array.T, array[:-1], array[..., :1], array[None], array.ravel(), np.asfortranarray(array))
        )
    else:
        array = np.concatenate([array, array[:1]])
    return array_bytes(array)


def _change_npy_header(content: bytes, random: Random) -> bytes:
    stream = io.BytesIO(content)
    npy.read_magic(stream)
    shape, by_column, dtype = npy.read_array_header_1_0(stream)
    sizes = [*shape]
    if sizes:
        sizes[random.randrange(len(sizes))] = random.choice((0, 1, 3, 6, -1, 2**31, 2**63, 10**400))
    text = str(
        {
            "descr": random.choice((npy.dtype_to_descr(dtype), "<f8", "|O", "V8", "<f16", "", [("a", "<f4")], 5)),
            "fortran_order": random.choice((by_column, not by_column, 1)),
            "shape": random.choice((tuple(sizes), tuple(sizes), shape, sizes, (), None)),
        }
    )
    raw = bytearray(text.encode()) + b" " * (-(len(text) + 11) % 64) + b"\n"
    if random.random() < 0.2:
        raw = bytearray(flip_bits(bytes(raw), random, b""))
    version = random.choice((b"\x01\x00", b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00"))
    length = struct.pack("<H" if version == b"\x01\x00" else "<I", len(raw))
    return npy.MAGIC_PREFIX + version + length + bytes(raw) + stream.read()


def zip_bytes(members: Sequence[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    """An archive that depends on its members only, and may have several of one name."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        for name, content in members:
            with warnings.catch_warnings(action="ignore"):  # of members with one name
                archive.writestr(zipfile.ZipInfo(name), content, compress_type=method)
    return sink.getvalue()


def change_archive(content: bytes, random: Random, _other: bytes) -> bytes:
    """Change, rename, repeat or remove a member, or compress all members in another way."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(info.filename, archive.read(info)) for info in archive.infolist()]
    at = random.randrange(len(members))
    name, inside = members[at]
    step = random.randrange(10)
    if step < 5:
        members[at] = name, random.choice((change_array, change_array, *BYTES))(inside, random, inside)
    elif step == 5:
        members[at] = random.choice(("tail.npy", "head.npy", "header.npy", "x", "../a.npy", "é.npy", ".npy")), inside
    elif step == 6:
        members.append((name, random.choice(members)[1]))
    elif step == 7:
        del members[at]
    methods = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    return zip_bytes(members, random.choice(methods))


def change_instruction(content: bytes, random: Random, _other: bytes) -> bytes:
    """Replace, remove or repeat an instruction of a pickle."""
    places = [place for _, _, place in pickletools.genops(content)]
    at = random.randrange(len(places) - 1)
    start, end = places[at : at + 2]
    new = random.choice(pickletools.opcodes).code.encode("latin-1")
    changed = random.choice((new + content[start + 1 : end], new, b"", 2 * content[start:end]))
    return content[:start] + changed + content[end:]


def change_tensors(content: bytes, random: Random, _other: bytes) -> bytes:
    """Change the table of contents of a .safetensors file, the header in its metadata, or its length."""
    (length,) = struct.unpack("<Q", content[:8])
    text, data = content[8 : 8 + length], content[8 + length :]
    step = random.randrange(4)
    if step == 0:
        contents = json.loads(text)
        own = contents.get("__metadata__", {}).get("kgprobe", "{}")
        changed = change_json(own.encode(), random, b"").decode("utf-8", "replace")
        text = json.dumps({**contents, "__metadata__": {"kgprobe": changed}}).encode()
    elif step < 3:
        text = change_json(text, random, b"")
    else:
        data = random.choice(BYTES)(data, random, data)
    length = len(text) if random.random() < 0.95 else random.choice((0, 2**63, len(text) + 1, 2**64 - 1))
    changed = struct.pack("<Q", length) + text + data
    return sealed(changed) if random.random() < 0.7 else changed


_SEAL = re.compile(rb'\\"sha256\\": ?\\"([0-9a-f]{64})\\"')
"""The hash of a .safetensors file in the header that kgprobe keeps in its metadata, a JSON text within JSON."""


def seals(content: bytes) -> list[tuple[bytes, bytes]]:
    """Every hash that a .safetensors file says it has, with the one that it should have there: digits count as 0."""
    places = [match.span(1) for match in _SEAL.finditer(content)]
    blank = [content[:start] + b"0" * 64 + content[end:] for start, end in places]
    return [(content[i:j], hashlib.sha256(b).hexdigest().encode()) for (i, j), b in zip(places, blank, strict=True)]


def sealed(content: bytes) -> bytes:
    """A file whose hash is right again, so that what else has changed is seen."""
    for found, right in seals(content)[:1]:
        content = content.replace(found, right, 1)
    return content


def change_hdf5(content: bytes, random: Random, _other: bytes) -> bytes:
    """Change a value, the type, the shape, the storage, the name or an attribute of a dataset in an HDF5 file."""
    import h5py

    sink = io.BytesIO(content)
    with h5py.File(sink, "a") as file:
        names: list[str] = []
        file.visit(names.append)
        own = [name for name in names if isinstance(file[name], h5py.Dataset) and file[name].dtype.kind == "f"]
        name, step = random.choice(own), random.randrange(8)
        values = file[name][...]
        if step < 3 and values.size:
            with np.errstate(over="ignore"):
                values.flat[random.randrange(values.size)] = random.choice(FLOATS)
            file[name][...] = values
        elif step == 3:
            file.attrs["format_version"] = random.choice((0, 1, 2, "1", 1.0, [1], [1, 2]))
        elif step == 4:
            file[random.choice(TEXTS) or "model/other"] = file.pop(name)
        else:
            del file[name]
            changed = (values.T, values[:-1], values[..., :1], values[None], np.concatenate([values, values[:1]]))
            kind = random.choice(("<f4", "<f8", ">f4", "<f2", "<i4", "<f4"))
            options = random.choice(({}, {"chunks": True}, {"chunks": True, "compression": "gzip"}))
            values = random.choice((values, values, *changed))
            with np.errstate(all="ignore"):
                file.create_dataset(name, data=values.astype(kind), **(options if values.size else {}))
    return sink.getvalue()


CONTAINERS: Mapping[str, Sequence[Mutator]] = {
    ".parquet": (change_table,),
    ".json": (change_json, change_json, change_json, *LINES),
    ".jsonl": (change_json_line, change_json_line, change_json_line, *LINES),
    ".h5": (change_hdf5,),
    ".npy": (change_array,),
    ".npz": (change_archive,),
    ".pt": (change_archive,),
    ".pkl": (change_instruction, change_instruction, *BYTES),
    ".safetensors": (change_tensors,),
    ".text": WORDS,
}
"""The mutators of each ending; those of lines and fields for any other."""
