import errno
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.files import overwritten, refuse_overwriting, replacing, require_writable


def write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


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


def started(target: Path) -> subprocess.Popen[str]:
    """A process that has written half of its temporary file, and waits."""
    code = f"""
import time
from kgprobe.files import replacing
with replacing({str(target)!r}) as temporary:
    temporary.write_text("half")
    print("writing", flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert process.stdout is not None
    process.stdout.close()


def test_a_killed_process_leaves_the_old_file_and_the_next_write_tidies_up(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    kill(started(target))
    assert target.read_text() == "old"
    write(tmp_path / "b.txt", "new")
    assert names(tmp_path) == ["a.txt", "b.txt"]


def test_a_process_that_is_still_writing_keeps_its_temporary_file(tmp_path: Path) -> None:
    process = started(tmp_path / "a.txt")
    write(tmp_path / "b.txt", "new")
    assert len(names(tmp_path)) == 2
    kill(process)


def test_temporary_files_of_other_programs_stay(tmp_path: Path) -> None:
    others = [".a.txt.123.tmp", ".kgprobe.tmp", "kgprobe.00000000000000000001.tmp", "x.tmp"]
    for name in others:
        (tmp_path / name).write_text("mine")
    write(tmp_path / "a.txt", "new")
    assert names(tmp_path) == sorted([*others, "a.txt"])


def test_threads_that_write_one_file_at_once_do_not_take_each_others(tmp_path: Path) -> None:
    target, errors = tmp_path / "a.txt", []

    def write_often(letter: str) -> None:
        try:
            for _ in range(25):
                write(target, letter * 1000)
        except DataError as error:
            errors.append(error)

    threads = [threading.Thread(target=write_often, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert names(tmp_path) == ["a.txt"]
    assert target.read_text() in {letter * 1000 for letter in "abcd"}


def test_the_temporary_name_cannot_be_taken_beforehand(tmp_path: Path) -> None:
    # A link under the temporary name would lead the write to another file.
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / f".a.txt.{os.getpid()}.tmp").symlink_to(victim)
    write(tmp_path / "a.txt", "new")
    assert (victim.read_text(), (tmp_path / "a.txt").read_text()) == ("kept", "new")


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o444])
def test_the_permissions_of_the_old_file_stay(tmp_path: Path, mode: int) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    target.chmod(mode)
    with replacing(target) as temporary:
        assert stat.S_IMODE(temporary.stat().st_mode) == 0o600  # nobody reads a private file half-way
        temporary.write_text("new")
    assert (target.read_text(), stat.S_IMODE(target.stat().st_mode)) == ("new", mode)


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write(tmp_path / "a.txt", "new")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


@pytest.mark.skipif(os.getuid() != 0, reason="only root may give files away")
def test_the_owner_of_the_old_file_stays(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    target.write_text("old")
    os.chown(target, 12345, 23456)
    write(target, "new")
    assert (target.stat().st_uid, target.stat().st_gid) == (12345, 23456)


def test_a_link_stays_and_the_file_behind_it_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a.txt").write_text("old")
    (tmp_path / "link").symlink_to(Path("there") / "a.txt")
    (tmp_path / "second").symlink_to("link")
    write(tmp_path / "second", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert (tmp_path / "there" / "a.txt").read_text() == "new"
    assert names(tmp_path / "there") == ["a.txt"]


def test_a_link_to_nothing_makes_the_file_it_names(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "new" / "a.txt")
    require_writable(tmp_path / "link")
    write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "new" / "a.txt").read_text() == "new"


def test_a_circle_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for act in (lambda: write(tmp_path / "a", "new"), lambda: require_writable(tmp_path / "a")):
        with pytest.raises(DataError, match="cannot be written"):
            act()
    assert (tmp_path / "a").is_symlink()


def device(path: Path, minor: int) -> Path:
    """A device of the machine's own kind; the real one is left out of danger."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, minor))
        path.write_bytes(b"")
    except OSError as error:
        pytest.skip(f"no device can be made here: {error}")
    return path


def test_a_device_is_written_into_and_stays_a_device(tmp_path: Path) -> None:
    null = device(tmp_path / "null", 3)
    require_writable(null)
    write(null, "new")
    assert stat.S_ISCHR(null.stat().st_mode)
    assert names(tmp_path) == ["null"]


def test_a_full_device_is_an_error(tmp_path: Path) -> None:
    full = device(tmp_path / "full", 7)
    with pytest.raises(DataError, match=os.strerror(errno.ENOSPC)):
        write(full, "new")
    assert stat.S_ISCHR(full.stat().st_mode)


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    require_writable(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write(pipe, "new")
    reader.join(timeout=30)
    assert read == ["new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_folders_and_sockets_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        for name, said in (("folder", "it is a folder"), ("socket", "it is a socket")):
            for act in (lambda name=name: write(Path(name), "new"), lambda name=name: require_writable(name)):
                with pytest.raises(DataError, match=said):
                    act()
        assert names(tmp_path) == ["folder", "socket"]


def test_the_new_file_is_on_disk_before_the_old_one_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def recorded(name: str) -> Callable[..., None]:
        act = getattr(os, name)

        def record(*args: object) -> None:
            place = os.readlink(f"/proc/self/fd/{args[0]}") if name == "fsync" else str(args[1])
            done.append(f"{name} {'folder' if place == str(tmp_path) else 'file'}")
            act(*args)

        return record

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, recorded(name))
    write(tmp_path / "a.txt", "new")
    assert done == ["fsync file", "replace file", "fsync folder"]


def test_the_longest_name_that_a_folder_takes(tmp_path: Path) -> None:
    write(tmp_path / ("a" * 255), "new")
    assert (tmp_path / ("a" * 255)).read_text() == "new"


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


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """A file, a folder with a file in a folder, and links to them from outside."""
    (tmp_path / "run" / "best").mkdir(parents=True)
    (tmp_path / "run" / "best" / "x.npz").write_text("x")
    (tmp_path / "a.parquet").write_text("a")
    (tmp_path / "linked").symlink_to("run")
    (tmp_path / "a.link").symlink_to("a.parquet")
    (tmp_path / "a.hard").hardlink_to(tmp_path / "a.parquet")
    (tmp_path / "x.hard").hardlink_to(tmp_path / "run" / "best" / "x.npz")
    (tmp_path / "other.hard").hardlink_to(tmp_path / "a.parquet")
    (tmp_path / "free.parquet").write_text("free")
    return tmp_path


@pytest.mark.parametrize("given", ["a.parquet", "a.link", "a.hard", "run/../a.parquet", "linked/../a.parquet"])
@pytest.mark.parametrize("output", ["a.parquet", "a.link", "a.hard", "./a.parquet"])
def test_an_input_is_not_overwritten_by_any_of_its_names(inputs: Path, output: str, given: str) -> None:
    with pytest.raises(UsageError) as refused:
        refuse_overwriting([inputs / output], [inputs / "absent", inputs / given])
    assert refused.value.problems == [f"{inputs / output} is both input and output"]


@pytest.mark.parametrize("given", ["run", "linked", "run/best"])
@pytest.mark.parametrize("output", ["run/best/x.npz", "linked/best/x.npz", "run/best/new/y.npz", "x.hard"])
def test_the_files_of_an_input_folder_are_not_overwritten(inputs: Path, output: str, given: str) -> None:
    assert overwritten([inputs / output], [inputs / given]) == [
        f"{inputs / output} is a file of the input {inputs / given}"
    ]


def test_other_files_may_be_written(inputs: Path) -> None:
    given = [inputs / "run", inputs / "a.parquet", inputs / "absent"]
    assert overwritten([inputs / "free.parquet", inputs / "new.parquet", inputs / "new" / "x.npz"], given) == []
    assert overwritten([inputs / "a.hard"], [inputs / "run"]) == []


def test_every_output_is_checked(inputs: Path) -> None:
    outputs = [inputs / "a.link", inputs / "free.parquet", inputs / "run" / "new"]
    assert len(overwritten(outputs, [inputs / "a.parquet", inputs / "run"])) == 2
