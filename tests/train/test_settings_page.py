import re
from pathlib import Path

from kgprobe.models.registry import MODELS, model_kind
from kgprobe.train.reference import settings_page
from kgprobe.train.resolve import resolve

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_in_the_documentation_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_page(), "run 'make docs'"


def test_the_page_has_every_setting_of_every_model_once_in_its_own_table() -> None:
    common, *own = settings_page().split("\n## ")[1:]
    shared, named = _settings(common), {part.splitlines()[0]: _settings(part) for part in own}
    assert set(named) == {"TransE", "DistMult", "ComplEx", "RotatE", "HousE", "TuckER", "pLogicNet", "RNNLogic"}
    for model, settings in named.items():
        everywhere = [name for name in shared if name not in model_kind(model).without]
        assert sorted(everywhere + settings) == sorted(set(resolve(model, []).settings.flat()) - {"model"})


def test_the_page_names_the_settings_that_a_model_does_not_have() -> None:
    sections = {part.splitlines()[0]: part for part in settings_page().split("\n## ")[1:]}
    for kind in MODELS.values():
        told = sections[kind.name].partition("It does not have ")[2]
        assert set(re.findall(r"`(\w+)`", told)) == kind.without


def _settings(part: str) -> list[str]:
    return [line.split("`")[1] for line in part.splitlines() if line.startswith("| `")]
