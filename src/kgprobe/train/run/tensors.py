"""Files of tensors with facts about them: whole or not there at all, and read back bit for bit."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from kgprobe.errors import DataError
from kgprobe.files import replacing
from kgprobe.predict.sources.files.safetensors_files import HEADER
from kgprobe.train.keep import Facts, Tensors, copied


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write a safetensors file; what was there before stays until the new one is safe on the disk.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "state.safetensors"
        >>> write_tensors(path, {"model.entity": torch.eye(2)}, {"epoch": 5})
        >>> tensors, facts = read_tensors(path)
        >>> tensors["model.entity"].tolist(), facts
        ([[1.0, 0.0], [0.0, 1.0]], {'epoch': 5})
    """
    own = copied(tensors)
    # One entry only: a second would make the order of the two, and so the bytes of the file, a matter of chance.
    header = {HEADER: json.dumps({**facts, _CHECKSUM: _checksum(own)}, sort_keys=True)}
    # Not by the library's own way into a file, which leaves another of its names behind where it is killed.
    content = save(own, header)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
        flush_to_disk(temporary)


def read_tensors(path: Path) -> tuple[Tensors, Facts]:
    """The tensors of a file and the facts about them.

    Raises:
        DataError: The file is missing, truncated or damaged.
    """
    with _reading(path), safe_open(path, framework="pt") as file:
        # Copies, since the tensors of the library lie in the file itself.
        tensors = copied({name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118 (it is no mapping)
        facts = _facts(file)
        if facts.pop(_CHECKSUM, None) != _checksum(tensors):
            raise ValueError("its numbers are not those that were written")
    return tensors, facts


def read_facts(path: Path) -> Facts:
    """The facts about the tensors of a file, without reading these.

    Raises:
        DataError: The file is missing, truncated or damaged.
    """
    with _reading(path), safe_open(path, framework="pt") as file:
        facts = _facts(file)
        facts.pop(_CHECKSUM, None)
    return facts


def flush_to_disk(path: Path) -> None:
    """Wait until a file is on the disk, so that a machine that loses power cannot lose it after it was renamed."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


_CHECKSUM = "checksum"


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    checksum = 0
    for name in sorted(tensors):
        checksum = zlib.crc32(_bytes(tensors[name]), zlib.crc32(name.encode(), checksum))
    return checksum


def _bytes(tensor: Tensor) -> Any:
    return tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else b""


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise DataError(f"{path}: cannot be read", ["no such file"], "check the name and the folder") from None
    except (OSError, SafetensorError, ValueError) as error:
        problem = str(error).split("\n")[0] or type(error).__name__
        raise DataError(f"{path}: cannot be read", [problem], "it is truncated or damaged") from None


def _facts(file: safe_open) -> Facts:
    metadata: dict[str, str] = file.metadata() or {}  # type: ignore[no-untyped-call]
    facts = json.loads(metadata.get(HEADER, "null"))
    if not isinstance(facts, dict):
        raise ValueError("it does not say what it is: no training has written it")
    return facts
