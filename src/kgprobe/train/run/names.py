"""What the files of a run are called."""

from __future__ import annotations

import re
from pathlib import Path

from kgprobe.metrics import parse

SETTINGS = "settings.toml"
ENVIRONMENT = "environment.json"
STATE = "state.safetensors"
LOG = "log.jsonl"
CURVE = "curve.csv"
BEST = "best"
SNAPSHOTS = "snapshots"
RANKS = "ranks.parquet"
RESULT = "result.json"
LOCK = ".lock"

_SIGNS = {"-": "minus", "+": "plus"}


def slug(target: str) -> str:
    """A metric as part of a file's name; two metrics never share one.

    Example:
        >>> slug("PROBE(alpha=1,beta=0)"), slug("PROBE(alpha=-1,beta=0.8)"), slug("Hits@10")
        ('probe-alpha-1-beta-0', 'probe-alpha-minus1-beta-0.8', 'hits-10')
    """
    plain = re.sub(r"[-+]", lambda sign: _SIGNS[sign[0]], str(parse(target)))
    return re.sub(r"[^a-z0-9._]+", "-", plain.lower()).strip("-")


def best_path(run: Path, target: str, seed: int) -> Path:
    """Where the best checkpoint of a seed by a target is kept.

    Example:
        >>> best_path(Path("run"), "MRR", 2).as_posix()
        'run/best/mrr/seed-2.safetensors'
    """
    return run / BEST / slug(target) / f"seed-{seed}.safetensors"


def snapshot_path(run: Path, epoch: int, seed: int) -> Path:
    """Where the snapshot of a seed after an epoch is kept.

    Example:
        >>> snapshot_path(Path("run"), 50, 0).as_posix()
        'run/snapshots/epoch-00050/seed-0.safetensors'
    """
    return run / SNAPSHOTS / f"epoch-{epoch:05d}" / f"seed-{seed}.safetensors"


def ranks_path(run: Path, target: str, *, first: bool) -> Path:
    """Where the test ranks of the best checkpoints by a target are kept; the first target has the plain name.

    Example:
        >>> ranks_path(Path("run"), "MRR", first=False).name
        'ranks-mrr.parquet'
    """
    return run / (RANKS if first else f"ranks-{slug(target)}.parquet")
