"""Commands run on a terminal, as a person does."""

import contextlib
import os
import subprocess
from collections.abc import Callable

ENVIRONMENT = {"TERM": "xterm"}


def run_on_terminal(
    command: list[str],
    code: int = 0,
    seen: Callable[[subprocess.Popen[bytes], bytes], None] | None = None,
    *,
    results: bool = False,
    columns: int = 120,
) -> str:
    """What a command writes to standard error when that is a terminal.

    Args:
        command: The command.
        code: How it must end.
        seen: Called with the process and all that was shown, whenever more is.
        results: Whether standard output is the terminal too.
        columns: The width of the terminal.
    """
    terminal, end = os.openpty()
    # The surroundings must not say otherwise about the terminal (TERM=dumb, NO_COLOR, COLUMNS=20 and their like).
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH", "KGPROBE_DATA") if name in os.environ}
    process = subprocess.Popen(
        command,
        stdout=end if results else subprocess.DEVNULL,
        stderr=end,
        env=kept | ENVIRONMENT | {"COLUMNS": str(columns)},
    )
    os.close(end)
    shown = b""
    with contextlib.suppress(OSError):  # a terminal whose other end is closed says so with an error
        while part := os.read(terminal, 4096):
            shown += part
            if seen:
                seen(process, shown)
    os.close(terminal)
    assert process.wait(timeout=60) == code
    return shown.decode()
