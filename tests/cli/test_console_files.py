from pathlib import Path


def test_the_problems_of_all_files_are_reported_together(kgprobe, ranks_file: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.parquet").write_bytes(b"")
    done = kgprobe("eval", tmp_path / "empty.parquet", ranks_file, tmp_path / "absent.parquet", "-m", "MRR")
    assert (done.code, done.out) == (1, "")
    assert "2 of 3 files cannot be used" in done.err
    assert "empty.parquet: the file is empty" in done.err
    assert "absent.parquet: no such file" in done.err
