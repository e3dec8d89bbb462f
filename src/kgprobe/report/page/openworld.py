"""A page about benches of the open world alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from os import PathLike
from typing import TYPE_CHECKING

from kgprobe.ranks.schema import package_version
from kgprobe.report.page.build import write_rendered
from kgprobe.report.page.container import pack
from kgprobe.report.page.worlds import world_entry

if TYPE_CHECKING:
    from kgprobe.openworld.bench.bench import Bench


def write_bench_page(path: str | PathLike[str], benches: Mapping[str, Bench], title: str, command: str) -> None:
    """Write the page; it appears under its name only when it is whole."""
    header = {
        "title": title,
        "command": command,
        "version": package_version(),
        "written": date.today().isoformat(),
        "openWorld": [world_entry(bench) for bench in benches.values()],
    }
    write_rendered(path, pack(header, {}), title, ranks=False, open_world=True)
