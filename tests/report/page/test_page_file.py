import base64
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kgprobe.comparison import line_up
from kgprobe.errors import DataError, UsageError
from kgprobe.report.page.page_file import render, require_extras, script, write_page
from kgprobe.report.page.payload import About, unpack
from pages import lined_up, made_up

EVIL = "</title></script><script>alert(1)</script><img src=x onerror=alert(2)>"


def _carried(page: str) -> bytes:
    (text,) = re.findall(r'<script type="application/octet-stream;base64" id="data">([^<]*)</script>', page)
    return base64.b64decode(text, validate=True)


def test_the_page_carries_its_data_style_scripts_and_plotly(tmp_path: Path) -> None:
    remarks = write_page(tmp_path / "page.html", lined_up(single=1), About(title="Mine"))
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    header, arrays = unpack(_carried(page))
    assert header["title"] == "Mine"
    assert len(arrays["triple"]) == 60
    assert script() in page
    assert "plotly.js v" in page
    assert "<title>Mine</title>" in page
    assert remarks == header["notes"] != []
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_a_title_and_names_never_become_markup(tmp_path: Path) -> None:
    (table,) = made_up(models=1).values()
    about = About(title=EVIL, command=EVIL, files={EVIL: EVIL}, notes=[EVIL])
    write_page(tmp_path / "evil.html", line_up({EVIL: table}), about)
    write_page(tmp_path / "good.html", line_up({"mine": table}), About(title="mine"))
    evil, good = ((tmp_path / f"{name}.html").read_text(encoding="utf-8") for name in ("evil", "good"))
    for tag in ("<script", "</script", "<img", "</title"):
        assert evil.lower().count(tag) == good.lower().count(tag)
    assert "onerror=alert(2)>" not in evil


def test_the_same_input_gives_the_same_page(tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_page(tmp_path / name, lined_up(), About(written="2026-01-02"))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


def test_nothing_is_loaded_from_elsewhere() -> None:
    page = render(b"", "mine")
    outside = page.replace(script(), "").partition("plotly.js v")[0]
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", outside)
    assert "default-src 'none'" in outside


def test_all_scripts_together_are_a_module(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node, which parses the scripts, is not installed")
    (tmp_path / "page.mjs").write_text(script(), encoding="utf-8")
    done = subprocess.run([node, "--check", str(tmp_path / "page.mjs")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_title_of_bytes_that_are_no_text_does_not_stop_it(tmp_path: Path) -> None:
    write_page(tmp_path / "page.html", lined_up(), About(title="caf\udce9"))
    assert "<title>caf?</title>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_folder_that_cannot_be_written_to_is_named() -> None:
    with pytest.raises(DataError, match=r"/dev/null/page\.html: cannot be written"):
        write_page("/dev/null/page.html", lined_up(), About())


@pytest.mark.parametrize("missing", ["jinja2", "plotly"])
def test_a_missing_library_is_named_with_the_way_to_install_it(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError) as raised:
        require_extras()
    assert str(raised.value) == (
        f"the HTML page needs {missing}, which is not installed\nRemedy: pip install 'kgprobe[report]'"
    )
