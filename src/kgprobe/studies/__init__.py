"""Studies: many models on many graphs in one command, with a verdict on every claim.

Names are imported on first use, because they need scipy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kgprobe.studies.study_file import Study, init_study, read_study
    from kgprobe.studies.study_work import StudyResult, open_study, plan_study, run_study

    study = run_study

_PLACES = {
    "study_file": ("Study", "init_study", "read_study"),
    "study_work": ("StudyResult", "open_study", "plan_study", "run_study"),
}


def __getattr__(name: str) -> object:
    asked = "run_study" if name == "study" else name  # kp.study, where there is no verb before it
    for module, names in _PLACES.items():
        if asked in names:
            return getattr(import_module(f"{__name__}.{module}"), asked)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["Study", "StudyResult", "init_study", "open_study", "plan_study", "read_study", "run_study", "study"]
