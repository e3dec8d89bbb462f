import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgprobe import bounded_files
from kgprobe.bounded_files import bounded_lines, open_bytes, parse_json, read_bounded
from kgprobe.resources import TooLarge


@settings(max_examples=300)
@given(st.text("ab\r\n|", max_size=30), st.integers(1, 9), st.integers(1, 5))
def test_lines_of_bounded_length_are_the_lines(text: str, block: int, most: int) -> None:
    content = text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_files, "BLOCK", block)
        assert list(bounded_lines(io.BytesIO(content))) == content.splitlines()
        long = [number for number, line in enumerate(content.splitlines(), 1) if len(line) > most]
        if long:
            with pytest.raises(TooLarge, match=f"line {long[0]} is longer than {most} bytes"):
                list(bounded_lines(io.BytesIO(content), most))
        else:
            assert list(bounded_lines(io.BytesIO(content), most)) == content.splitlines()


def test_a_line_that_never_ends_is_refused() -> None:
    class Endless(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return bytes(size or 0)

    with pytest.raises(TooLarge, match="line 1 is longer"):
        list(bounded_lines(Endless()))


@settings(max_examples=60)
@given(st.binary(max_size=300), st.integers(1, 40))
def test_a_compressed_file_has_its_bytes(content: bytes, block: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded_files, "BLOCK", block)
        path = Path(folder) / "x.gz"
        path.write_bytes(gzip.compress(content))
        assert read_bounded(path) == content
        with open_bytes(path) as file:
            assert list(file) == list(io.BytesIO(content))


@pytest.mark.parametrize(
    "content",
    ["[" * 100_000, "1" * 5_000, '{"a": "\\ud800"}', "{", "", b"\xff\xfe", '{"a": 1} 2'],
    ids=["deep", "digits", "half of a pair", "cut", "empty", "not UTF-8", "more"],
)
def test_json_that_cannot_be_kept_is_a_value_error(content: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_json(content)


def test_json_may_start_with_a_byte_order_mark_and_have_escapes() -> None:
    assert parse_json('\ufeff{"a": "\\u00e9\\ud83d\\ude00"}'.encode()) == {"a": "\u00e9\U0001f600"}
