from pathlib import Path

import pytest

from kgprobe.studies.study_report import write_report
from kgprobe.studies.study_work import StudyResult
from study_results import small_result


@pytest.fixture(scope="session")
def result(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    """A small study of two sources."""
    return small_result(tmp_path_factory.mktemp("study"), sources=2)


@pytest.fixture(scope="session")
def written(result: StudyResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its report, with all of its parts, and its notes in a file beside it."""
    folder = tmp_path_factory.mktemp("report") / "report"
    shares: list[float] = []
    notes = write_report(result, folder, figure_type="svg", progress=shares.append)
    assert sum(shares) == pytest.approx(1)
    assert min(shares) > 0
    (folder.parent / "notes.txt").write_text("\n".join(notes))
    return folder
