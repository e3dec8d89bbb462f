import json
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kgprobe as kp
from kgprobe.cli import console
from kgprobe.cli.console import Format, print_rows
from terminal import run_on_terminal

ROWS = [{"name": "a_b & c|d", "value": 0.1 + 0.2, "count": 1234}, {"name": None, "value": float("nan"), "more": True}]


def printed(capsys: pytest.CaptureFixture[str], style: Format) -> str:
    print_rows(ROWS, style)
    return capsys.readouterr().out


def test_json_keeps_every_digit_and_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(printed(capsys, Format.json), parse_constant=pytest.fail)
    assert rows[0]["value"] == 0.1 + 0.2
    assert rows[1]["value"] is None


def test_latex_escapes_what_it_must(capsys: pytest.CaptureFixture[str]) -> None:
    assert r"a\_b \& c\textbar{}d & 0.3000 & 1,234" in printed(capsys, Format.latex)


def test_markdown_escapes_bars(capsys: pytest.CaptureFixture[str]) -> None:
    assert r"a_b & c\|d" in printed(capsys, Format.markdown)


def test_csv_has_all_columns_and_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, Format.csv).splitlines()
    assert lines[0] == "name,value,count,more,reason"
    assert lines[2] == ",,,True,value is undefined"


def test_table_shows_values_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, Format.table).splitlines()
    assert lines[0].split() == ["name", "value", "count", "more"]
    assert "1,234" in lines[2]


def test_a_table_on_a_terminal_is_as_wide_as_it(tmp_path: Path) -> None:
    script = (
        "import sys; sys.stdout = sys.stderr\n"
        "from kgprobe.cli.console import Format, print_rows\n"
        "print_rows([{'name': 'x' * 30, **{f'column {i}': i / 7 for i in range(20)}}], Format.table)\n"
    )
    (tmp_path / "show.py").write_text(script, encoding="utf-8")
    shown = run_on_terminal([sys.executable, str(tmp_path / "show.py")])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, lines)) <= 120
    assert sum("column 0" in line for line in lines) == 1
    assert sum("x" * 30 in line for line in lines) > 1


@pytest.fixture
def large_file(tmp_path: Path) -> Path:
    rows = 900_000
    rng = np.random.default_rng(0)
    table = pa.table(
        {
            "head": np.arange(rows),
            "relation": rng.integers(0, 9, rows),
            "tail": rng.integers(0, 10**9, rows),
            "side": pa.array(["tail"] * rows),
            "rank": np.floor(1 + 1e9 * rng.random(rows)),
            "candidates": np.full(rows, 2 * 10**9),
            "note": rng.random(rows),
        }
    )
    pq.write_table(table, tmp_path / "large.parquet", compression="none")
    assert (tmp_path / "large.parquet").stat().st_size > console._LARGE_FILE
    return tmp_path / "large.parquet"


def test_the_name_of_a_file_is_no_markup_for_the_bar(large_file: Path) -> None:
    path = large_file.rename(large_file.with_name("[red] \x1b[31m.parquet"))
    shown = run_on_terminal([sys.executable, "-m", "kgprobe", "eval", str(path), "-m", "MRR", "-f", "json"])
    assert "[red]  [31m.parquet" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)


def test_every_batch_is_reported(ranks_file: Path) -> None:
    seen: list[int] = []
    kp.evaluate(kp.RankFile(ranks_file, seen.append), "MRR")
    assert set(seen) == {4}


def test_a_terminal_shows_a_bar_and_the_result_stays_clean(kgprobe, large_file: Path) -> None:
    command = ["eval", str(large_file), "-m", "MRR", "-f", "json"]
    assert re.search(r"[1-9][\d,]* rows read", run_on_terminal([sys.executable, "-m", "kgprobe", *command]))
    piped = kgprobe(*command)
    assert (piped.code, piped.err) == (0, "")
    assert piped.out.startswith("[")
