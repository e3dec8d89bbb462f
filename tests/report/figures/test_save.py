import os
import subprocess
import sys
from pathlib import Path

import pytest

from kgprobe.errors import DataError, UsageError
from kgprobe.report.figures.save import ENDINGS, ending_of, save
from kgprobe.report.figures.transformers import draw_transformers

MAGIC = {"pdf": b"%PDF-", "svg": b"<?xml", "png": b"\x89PNG\r\n\x1a\n"}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_ending_decides_the_kind_of_file(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"curves.{ending}"
    save(draw_transformers(), path)
    assert path.read_bytes().startswith(MAGIC[ending])
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ENDINGS)
def test_equal_figures_are_equal_files(ending: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        save(draw_transformers(), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_files_do_not_depend_on_the_process(tmp_path: Path) -> None:
    program = (
        "import sys; from kgprobe.report.figures.save import save\n"
        "from kgprobe.report.figures.transformers import draw_transformers\n"
        "figure = draw_transformers()\n"
        "for path in sys.argv[1:]: save(figure, path)"
    )
    files = {seed: [tmp_path / f"{seed}.{ending}" for ending in ENDINGS] for seed in (1, 2)}
    for seed, paths in files.items():
        environment = os.environ | {"PYTHONHASHSEED": str(seed)}
        subprocess.run([sys.executable, "-c", program, *map(str, paths)], check=True, env=environment)
    for one, other in zip(*files.values(), strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_pdf_has_true_fonts_and_no_date(tmp_path: Path) -> None:
    save(draw_transformers(), tmp_path / "curves.pdf")
    written = (tmp_path / "curves.pdf").read_bytes()
    assert b"/FontFile2" in written
    assert b"/Type3" not in written
    assert b"CreationDate" not in written


def test_text_in_an_svg_is_text(tmp_path: Path) -> None:
    save(draw_transformers([1.0]), tmp_path / "curves.svg")
    written = (tmp_path / "curves.svg").read_text(encoding="utf-8")
    assert ">rank r</text>" in written
    assert "<dc:date>" not in written


def test_other_endings_are_refused() -> None:
    for name in ("figure", "figure.bmp", "pdf"):
        with pytest.raises(UsageError, match="kind of file") as error:
            ending_of(name)
        assert error.value.remedy == "end its name in .pdf, .svg, .png"


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="cannot be written"):
        save(draw_transformers(), tmp_path / "file" / "curves.pdf")
