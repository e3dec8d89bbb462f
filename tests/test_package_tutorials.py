from pathlib import Path

import pytest

from tutorials import FOLDER, Reader, steps


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.md") if path.stem != "index"))
def test_a_tutorial_does_what_it_says(name: str, tmp_path: Path) -> None:
    assert Reader(tmp_path).follow(FOLDER / f"{name}.md") == []


TUTORIAL = """
```console
$ echo one \\
  two
one   two
$ echo three; exit 0
```

```python
total = 1 + 1
print(total)
```

```text
...
```

```python
print(total + 1)
```

```text
4
```
"""


def test_steps_are_taken_in_order_and_differences_are_found(tmp_path: Path) -> None:
    path = tmp_path / "tutorial.md"
    path.write_text(TUTORIAL)
    assert [(step.kind, step.line) for step in steps(TUTORIAL)] == [
        ("console", 3), ("console", 6), ("python", 10), ("python", 19),
    ]  # fmt: skip
    (difference,) = Reader(tmp_path).follow(path)
    assert "line 19" in difference
    assert difference.endswith("printed\n3\n")


def test_a_command_that_fails_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "tutorial.md"
    path.write_text("```console\n$ false\n```\n")
    with pytest.raises(AssertionError, match="line 2: false"):
        Reader(tmp_path).follow(path)
