import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kgprobe.errors import DataError
from kgprobe.files import replacing, require_writable


def test_a_file_appears_whole_and_nothing_else_stays(tmp_path: Path) -> None:
    with replacing(tmp_path / "new" / "a.txt") as temporary:
        temporary.write_text("half")
        assert not (tmp_path / "new" / "a.txt").exists()
        temporary.write_text("whole")
    assert [(file.name, file.read_text()) for file in (tmp_path / "new").iterdir()] == [("a.txt", "whole")]


def test_an_error_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(UnicodeEncodeError), replacing(tmp_path / "a.txt") as temporary:
        temporary.write_text("half \ud800", encoding="utf-8")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a.txt", "old")]


def test_a_killed_process_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    code = f"""
import time
from kgprobe.files import replacing, require_writable
with replacing({str(target)!r}) as temporary:
    temporary.write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    assert target.read_text() == "old"
    with replacing(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"), replacing(tmp_path / "file" / "a.txt"):
        pass


def test_what_cannot_be_written_is_said_beforehand(tmp_path: Path) -> None:
    require_writable(tmp_path / "new" / "a.txt")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "a.txt", tmp_path / "new"):
        with pytest.raises(DataError, match="cannot be written"):
            require_writable(path)
