from pathlib import Path

from kgprobe.train.reference import settings_page
from kgprobe.train.resolve import resolve

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_page_in_the_documentation_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == settings_page(), "run 'make docs'"


def test_the_page_has_every_setting_of_every_model_once_in_its_own_table() -> None:
    common, *own = settings_page().split("\n## ")[1:]
    shared, named = _settings(common), {part.splitlines()[0]: _settings(part) for part in own}
    assert set(named) == {"TransE", "DistMult", "ComplEx", "RotatE", "HousE", "TuckER"}
    for model, settings in named.items():
        assert sorted(shared + settings) == sorted(set(resolve(model, []).settings.flat()) - {"model"})


def _settings(part: str) -> list[str]:
    return [line.split("`")[1] for line in part.splitlines() if line.startswith("| `")]
