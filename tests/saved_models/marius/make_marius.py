"""Write folders in the layout of Marius. ``python make_marius.py MODEL_ARCHIVE FOLDER`` made those beside this file.

MODEL_ARCHIVE is the compiled model_archive.cpp.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

ENTITIES = ["ada", 'b"ob', "cyd,d", "dän", "e e", "#f", "0", "1"]
RELATIONS = ["knows", "lives in", "is,a"]

CONFIG = """\
model:
  random_seed: 12345
  learning_task: LINK_PREDICTION
  encoder:
    layers:
    - - type: EMBEDDING
        options: {{}}
        input_dim: -1
        output_dim: {dimension}
        init:
          type: GLOROT_UNIFORM
          options: {{}}
        optimizer:
          type: DEFAULT
          options:
            learning_rate: 0.1
        bias: false
        bias_init:
          type: ZEROS
          options: {{}}
        activation: NONE
    train_neighbor_sampling: []
    eval_neighbor_sampling: []
    embedding_dim: -1
  decoder:
    type: {decoder}
    options:
      inverse_edges: {inverse}
      use_relation_features: false
      edge_decoder_method: CORRUPT_NODE
  loss:
    type: SOFTMAX_CE
    options:
      reduction: SUM
storage:
  device_type: cpu
  device_ids: []
  dataset:
    dataset_dir: /data/tiny/
    num_edges: 30
    num_nodes: {nodes}
    num_relations: {relations}
    num_train: 30
    num_valid: 6
    num_test: 8
    node_feature_dim: -1
    initialized: true
  embeddings:
    type: DEVICE_MEMORY
    options:
      dtype: float
  model_dir: /data/tiny/model_0/
  log_level: info
"""


def write_folder(
    folder: Path,
    decoder: str,
    tables: dict[str, Any],
    names: tuple[Sequence[str], Sequence[str]] | None,
    archive: Callable[[Path, dict[str, Any]], None],
    seed: int = 0,
) -> None:
    """A folder of tables "entity", "relation" and perhaps "inverse", whose rows are shuffled if they have names."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True, exist_ok=True)
    sizes = len(tables["entity"]), len(tables["relation"])
    row = [rng.permutation(size) if names else np.arange(size) for size in sizes]
    for file, labels, rows in zip(("node_mapping.txt", "relation_mapping.txt"), names or (), row, strict=False):
        lines = [f"{label},{row}\n" for label, row in zip(labels, rows, strict=True)]
        (folder / file).write_text("".join(lines), encoding="utf-8")
    stored = {name: np.empty_like(table) for name, table in tables.items()}
    for name, table in tables.items():
        stored[name][row[name != "entity"]] = table
    stored["entity"].astype("<f4").tofile(folder / "embeddings.bin")
    parameters = {"relation_embeddings": stored["relation"]}
    parameters |= {"inverse_relation_embeddings": stored["inverse"]} if "inverse" in stored else {}
    archive(folder / "model.pt", parameters)
    values = {"dimension": tables["entity"].shape[1], "decoder": decoder, "nodes": sizes[0], "relations": sizes[1]}
    text = CONFIG.format(**values, inverse=str("inverse" in tables).lower())
    (folder / "full_config.yaml").write_text(text, encoding="utf-8")


def main(program: str, out: Path) -> None:
    def archive(path: Path, parameters: dict[str, Any]) -> None:
        with TemporaryDirectory() as place:
            files = [Path(place) / f"{name}.bin" for name in parameters]
            for file, table in zip(files, parameters.values(), strict=True):
                table.astype("<f4").tofile(file)
            shape = map(str, parameters["relation_embeddings"].shape)
            subprocess.run([program, str(path), *shape, *map(str, files)], check=True)

    for number, decoder in enumerate(("DISTMULT", "COMPLEX", "TRANSE")):
        rng = np.random.default_rng(number)
        sizes = {"entity": 8, "relation": 3} | ({} if decoder == "TRANSE" else {"inverse": 3})
        tables = {name: rng.normal(size=(rows, 4)).astype(np.float32) for name, rows in sizes.items()}
        folder = out / decoder.lower()
        write_folder(folder, decoder, tables, (ENTITIES, RELATIONS), archive, seed=number)
        np.savez(folder / "tables.npz", **tables)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
