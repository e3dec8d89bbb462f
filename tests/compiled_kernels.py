"""Compiles the Triton kernels that count for an H200, without one, and tells what they compile to.

It is a program of its own since kernels are compiled only where TRITON_INTERPRET is unset when they are imported.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from kgprobe.predict.backends import triton_kernels as kernels
from kgprobe.predict.backends.triton_backend import SMALL_TILES, Tiles
from kgprobe.predict.scorers import Dot

H200, L40 = GPUTarget("cuda", 90, 32), GPUTarget("cuda", 89, 32)

DISASSEMBLER = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"

TYPES = {
    **dict.fromkeys(("query_high", "query_low", "candidate_high", "candidate_low", "high", "low"), "*bf16"),
    **dict.fromkeys(("own", "slope", "scale", "queries", "candidates", "bounds", "scores", "embeddings"), "*fp32"),
    **dict.fromkeys(("above", "listed", "counts", "row", "column", "place", "offsets", "query"), "*i32"),
    **dict.fromkeys(("gamma", "sizes"), "*fp64"),
    **dict.fromkeys(("room", "rows", "pairs", "first_column", "columns", "tiles", "lists"), "i32"),
    "found": "*i64",
    "lost": "fp32",
}


def compiled(
    kernel: Any,
    constants: dict[str, Any],
    types: dict[str, str] | None = None,
    target: GPUTarget = H200,
    **options: Any,
) -> dict[str, Any]:
    """Registers, spilled bytes and instructions of a kernel."""
    known = TYPES | (types or {})
    signature = {name: "constexpr" if name in constants else known[name] for name in kernel.arg_names}
    aligned = {
        (at,): [["tt.divisibility", 16]]
        for at, name in enumerate(kernel.arg_names)
        if signature[name].startswith("*") or (kernel is kernels.count_norms and name in ("rows", "columns"))
    }
    source = ASTSource(kernel, signature, constexprs=constants, attrs=aligned)
    found = triton.compile(source, target=target, options=options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(found.asm["cubin"])
        usage, code = (
            subprocess.run([DISASSEMBLER, option, path], check=True, capture_output=True, text=True).stdout
            for option in ("--dump-resource-usage", "--dump-sass")
        )
    numbers = {name: int(number) for name, number in re.findall(r"(REG|STACK|LOCAL):(\d+)", usage)}
    assembly = found.asm["ptx"]
    return {
        "registers": numbers["REG"],
        "spilled": numbers["STACK"] + numbers["LOCAL"],
        "shared": found.metadata.shared,
        "tensor cores": len(re.findall(r"HG?MMA", code)),
        "vector loads": code.count("LDG.E.128"),
        "fused float64": assembly.count("fma.rn.f64"),
        "float64 roots": assembly.count("sqrt.rn.f64"),
        "approximate roots": assembly.count("sqrt.approx"),
    }


def main() -> None:
    tiles = Tiles()
    found = {}
    for shapes, target in ((tiles, H200), (SMALL_TILES, L40)):
        for padded, level in ((64, 0), (128, 0), (256, 0), (512, 0), (192, 1), (256, 1)):
            tile = shapes.of(Dot(), padded, level)
            constants = {"PADDED": padded, "TIGHT": bool(level), "ROWS": tile.rows, "COLUMNS": tile.columns}
            found[f"count_dots {padded} {level} {target.arch}"] = compiled(
                kernels.count_dots, constants | {"BLOCK": tile.block}, target=target, num_warps=tile.warps,
                num_stages=tile.stages,
            )  # fmt: skip
    for width in (1, 2, 3, 8, 256):
        tile = tiles.narrow if width == 1 else tiles.wide
        constants = {
            "dimension": 258 if width == 3 else 256,
            "WIDTH": width,
            "ROWS": tile.rows,
            "COLUMNS": tile.columns,
        }
        options = {"num_warps": tile.warps, "maxnreg": tile.registers}
        found[f"count_norms {width}"] = compiled(kernels.count_norms, constants, **options)
    above = {"above": "*i32", "listed": "*i32", "index": "*i64", "totals": "*i64"}
    for width in (0, 1, 2, 3, 8, 256):
        constants = {"dimension": 258 if width == 3 else 256, "WIDTH": width, "PAIRS": tiles.pairs}
        options = {"num_warps": 2, "enable_fp_fusion": width == 0}
        found[f"score_pairs {width}"] = compiled(kernels.score_pairs, constants, {"column": "*i32"}, **options)
        found[f"settle_all {width}"] = compiled(kernels.settle_all, constants, above | {"columns": "*i32"}, **options)
        found[f"settle_lists {width}"] = compiled(kernels.settle_lists, constants | {"LISTS": 8}, above, **options)
    found["subtract_scores"] = compiled(kernels.subtract_scores, {"PAIRS": 2 * tiles.pairs}, above)
    constants = {"dimension": 200, "PADDED": 256, "ROWS": 16, "BLOCK": 64}
    found["round_rows"] = compiled(kernels.round_rows, constants, num_warps=4)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
