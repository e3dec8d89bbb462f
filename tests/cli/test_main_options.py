"""Library errors name Python arguments; the command line prints its options instead."""

import pytest

from kgprobe.cli.main import with_options
from kgprobe.errors import UsageError


@pytest.mark.parametrize(
    ("command", "message", "printed"),
    [
        ("eval", "give `graph`", "give --graph"),
        ("eval", "argument `graph` is missing", "--graph is missing"),
        ("surface", "`alphas` and `betas` are empty", "--alpha and --beta are empty"),
        ("compare", "unknown `metrics`: 'x'", "unknown --metric: 'x'"),
        ("compare", "set `common=True`", "set --common"),
        ("eval", 'use `tie="mean"`', "use --tie mean"),
        ("rank", "`sides` must be head, tail or both", "--side must be head, tail or both"),
        ("openworld sensitivity", "`sides` must be head, tail or both", "--sides must be head, tail or both"),
        ("import", "give `graph` or `num_entities`, or `columns`", "give --graph or --entities, or --map"),
        ("decide", "`ranks` is empty", "RANKS is empty"),
        ("eval", "no option is called `colour`", "no option is called `colour`"),
        ("eval", "Run `kgprobe check` first", "Run `kgprobe check` first"),
        ("openworld split", "`train_share` is 0", "--train is 0"),
    ],
)
def test_arguments_become_options(command: str, message: str, printed: str) -> None:
    assert with_options(message, [*command.split(), "file.parquet"]) == printed


def test_errors_are_printed_with_options(kgprobe, ranks_file, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise UsageError("bad `alphas`", ["`betas` too"], "give `graph`")

    monkeypatch.setattr("kgprobe.aggregate.surface", refuse)
    done = kgprobe("surface", ranks_file)
    assert (done.code, done.err) == (2, "Error: bad --alpha\n  - --beta too\nRemedy: give --graph\n")
