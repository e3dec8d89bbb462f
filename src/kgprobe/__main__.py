"""``python -m kgprobe`` is ``kgprobe``."""

from kgprobe.cli.main import main

main()
