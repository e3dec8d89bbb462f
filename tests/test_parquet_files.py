import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flipping import outcomes
from kgprobe import resources
from kgprobe.errors import DataError
from kgprobe.parquet_files import open_parquet, write_parquet

TABLE = pa.table({"id": list(range(500)), "label": [f"label {i % 7}" for i in range(500)]})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_parquet(TABLE.replace_schema_metadata({"a": "b"}), tmp_path / "t.parquet", row_group_size=200)
    return tmp_path / "t.parquet"


def _problem(path: Path) -> str:
    with pytest.raises(DataError) as caught:
        open_parquet(path).read()
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


def test_a_table_comes_back_whole_and_in_batches(path: Path) -> None:
    opened = open_parquet(path)
    assert len(opened) == 500
    assert opened.schema.metadata == {b"a": b"b"}
    assert opened.read().equals(TABLE)
    batches = list(opened.batches(64))
    assert max(batch.num_rows for batch in batches) <= 64
    assert pa.concat_tables(batches).equals(TABLE)


def test_other_readers_see_an_ordinary_file_with_page_checksums(path: Path) -> None:
    table = pq.read_table(path, page_checksum_verification=True)
    assert table.equals(TABLE)
    assert table.schema.metadata == {b"a": b"b"}
    plain = path.with_name("plain.parquet")
    pq.write_table(TABLE, plain, compression="zstd", row_group_size=200)
    assert path.stat().st_size > plain.stat().st_size


def test_the_same_table_gives_the_same_bytes(path: Path) -> None:
    before = path.read_bytes()
    write_parquet(TABLE.replace_schema_metadata({"a": "b"}), path, row_group_size=200)
    assert path.read_bytes() == before


def test_a_table_without_rows_comes_back(tmp_path: Path) -> None:
    write_parquet(TABLE.slice(0, 0), tmp_path / "none.parquet")
    opened = open_parquet(tmp_path / "none.parquet")
    assert (len(opened), opened.read().num_rows, list(opened.batches(9))) == (0, 0, [])


def test_a_copy_written_by_another_program_has_no_stale_checksum(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.parquet"
    pq.write_table(pq.read_table(path).slice(10), copy)
    assert open_parquet(copy).read().equals(TABLE.slice(10))


@pytest.mark.parametrize("place", ["start", "page", "footer", "length"])
def test_a_change_anywhere_is_damage(path: Path, place: str) -> None:
    content = bytearray(path.read_bytes())
    at = {"start": 5, "page": len(content) // 4, "footer": len(content) - 60, "length": len(content) - 8}[place]
    content[at] ^= 4
    path.write_bytes(content)
    problem = _problem(path)
    assert "the Parquet file is damaged" in problem
    assert re.search(r"its checksum is [0-9a-f]{8}, but its content gives [0-9a-f]{8}", problem)
    assert "write or copy it again" in problem


def test_flipped_bits_at_every_place_of_the_structure(path: Path) -> None:
    counts = outcomes(path, 400, 5, lambda: open_parquet(path).read().to_pydict())
    assert counts["other"] == 0
    assert counts["refused"] > 350


def test_bytes_that_are_inserted_or_lost_are_damage(path: Path) -> None:
    content = path.read_bytes()
    for changed in (content[:100] + b"x" + content[100:], content[:100] + content[101:], content + content):
        path.write_bytes(changed)
        assert "its checksum is" in _problem(path)


def test_pages_of_foreign_files_are_verified_if_they_have_checksums(tmp_path: Path) -> None:
    path = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"x": list(range(3000))}), path, write_page_checksum=True, compression="none")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert "CRC" in _problem(path)


def _footer(path: Path, old: bytes, new: bytes) -> None:
    """Change the footer of a foreign file."""
    content = path.read_bytes()
    at = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    assert content[at:].count(old) == 1
    path.write_bytes(content[:at] + content[at:].replace(old, new))


def test_rows_of_row_groups_and_of_the_footer_must_agree(tmp_path: Path) -> None:
    path = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"x": [7] * 50}), path, store_schema=False)
    # The number of rows is field 3 of the footer, behind the schema: type i64 (0x16), zigzag.
    _footer(path, b"x\x00\x16\x64", b"x\x00\x16\x02")
    assert "its row groups have 50 rows, its footer says 1" in _problem(path)


def test_names_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"name of x": [7]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"name of x", b"name of \xff"))
    assert "the name of a column is not UTF-8" in _problem(path)


def test_texts_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"x": ["some text"]}), path, compression="none", write_statistics=False)
    path.write_bytes(path.read_bytes().replace(b"some text", b"some \xff\xfe\xfd\xfc"))
    assert "UTF8" in _problem(path)


def test_other_kinds_of_files(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for name, content in {"empty": b"", "text": b"head\trelation\n", "cut": b"PAR1 and more"}.items():
        (tmp_path / name).write_bytes(content)
    said = {name: _problem(tmp_path / name) for name in ("none", ".", "fifo", "empty", "text", "cut")}
    expected = {
        "none": "no such file",
        ".": "this is a folder, not a Parquet file",
        "fifo": "this is a pipe or a device",
        "empty": "the file is empty",
        "text": "it begins with b'head'",
        "cut": "its end is missing: it was truncated",
    }
    assert {name: text for name, text in expected.items() if text not in said[name]} == {}


@pytest.mark.parametrize(
    "column",
    [pa.array([1] * 60_000), pa.array([b"x" * 8] * 60_000, pa.binary(8)), pa.array([None] * 240_000, pa.bool_())],
    ids=["numbers", "binary of one length", "nulls"],
)
def test_a_small_file_with_many_rows_is_refused_by_its_footer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: pa.Array
) -> None:
    path = tmp_path / "t.parquet"
    write_parquet(pa.table({"x": column}), path)
    size = open_parquet(path).read().nbytes
    assert path.stat().st_size * 20 < size
    monkeypatch.setattr(resources, "machine_memory", lambda: size)
    monkeypatch.setattr(pq.ParquetFile, "read", _unread)
    problem = _problem(path)
    assert "too large to be read" in problem
    assert "more than the limit of" in problem
    assert "--memory" in problem
    monkeypatch.undo()
    monkeypatch.setattr(resources, "machine_memory", lambda: 3 * size)
    assert open_parquet(path).read().num_rows == len(column)


def _unread(*_arguments: Any, **_options: Any) -> None:
    raise AssertionError("the file was read")


def test_long_texts_count_as_they_unpack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    write_parquet(pa.table({"x": [str(i) * 50_000 for i in range(20)]}), path)
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(resources, "machine_memory", lambda: 2_000_000)
    assert "it unpacks to 1" in _problem(path)


def test_a_text_that_is_stored_once_counts_as_often_as_it_occurs(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), pa.array(["x" * 1_000_000]))
    pq.write_table(pa.table({"label": text}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 400_000
    assert "it unpacks to 93.1 GiB" in _problem(path)
    with pytest.raises(DataError, match="too large to be read"):
        list(open_parquet(path).batches(50_000))


KINDS = [pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view()]


@pytest.mark.parametrize("kind", [*KINDS, pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_texts_have_the_type_that_they_were_written_with(tmp_path: Path, kind: pa.DataType) -> None:
    texts = pa.array(["a", None, "", "b", "a"]).cast(kind)
    table = pa.table({"x": texts, "y": [[1], [], [2], None, [3]]})
    write_parquet(table, tmp_path / "t.parquet", row_group_size=2)
    assert open_parquet(tmp_path / "t.parquet").read().equals(pq.read_table(tmp_path / "t.parquet"))
    parts = list(open_parquet(tmp_path / "t.parquet").batches(3))
    assert pa.concat_tables(parts).column("x").to_pylist() == texts.to_pylist()
    assert {part.schema.field("x").type for part in parts} == {kind}


def test_batches_are_read_however_large_the_file_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "machine_memory", lambda: 2000)
    assert sum(batch.num_rows for batch in open_parquet(path).batches(50)) == 500
    assert "too large" in _problem(path)
