"""Writes pbg_checkpoints.tar.xz: tiny checkpoints that PyTorch-BigGraph trained, and the scores of its own model code.

Run it where torchbiggraph 1.0.0 is installed (with setuptools below 81, for pkg_resources):
``python -W ignore make_pbg_checkpoints.py FOLDER``. It trains every operator and comparator, with and without bias, in
static mode (six relations with an operator each, two entity types that share names, two partitions, global embeddings)
and in dynamic mode (one entity type in three partitions), some with a largest norm. Scores are those of
`MultiRelationEmbedder` in float64, over the tables of all partitions at once.
"""

import json
import random
import sys
import tarfile
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torchbiggraph.checkpoint_manager import CheckpointManager
from torchbiggraph.config import parse_config
from torchbiggraph.converters.export_to_tsv import make_tsv
from torchbiggraph.converters.import_from_tsv import convert_input_data
from torchbiggraph.edgelist import EdgeList
from torchbiggraph.entitylist import EntityList
from torchbiggraph.model import make_model
from torchbiggraph.train import train
from torchbiggraph.types import Side

OPERATORS = ("none", "diagonal", "translation", "linear", "affine", "complex_diagonal")
COMPARATORS = ("dot", "cos", "l2", "squared_l2")
PEOPLE = ["Ada", "Çelik", "007", "NA", '"q"', "#x"]
THINGS = ["a/b", "Ada", "\U0001f642", "null", "=1+1"]
DYNAMIC = ["made", "likes!", "r\U0001f642"]
DIMENSION = 4


def settings(name, comparator, bias, operators, *, dynamic):
    limited = comparator in ("dot", "l2")
    relations = [
        {"name": "all" if dynamic else f"r:{operator}", "lhs": "people", "rhs": "people" if dynamic else "things"}
        | {"operator": operator}
        for operator in operators
    ]
    types = {"people": {"num_partitions": 3 if dynamic else 2}} | ({} if dynamic else {"things": {"num_partitions": 2}})
    return {
        "entities": types,
        "relations": relations,
        "dynamic_relations": dynamic,
        "dimension": DIMENSION,
        "comparator": comparator,
        "bias": bias,
        "global_emb": not dynamic,
        "max_norm": 0.3 if limited else None,
        "init_scale": 0.5,
        "entity_path": f"{name}/graph",
        "edge_paths": [f"{name}/edges"],
        "checkpoint_path": f"{name}/model",
        "num_epochs": 4,
        "lr": 1.0 if limited else 0.2,  # so that the last step exceeds the largest norm
        "batch_size": 8,
        "num_batch_negs": 4,
        "num_uniform_negs": 4,
        "eval_fraction": 0.0,
        "workers": 1,
        "num_edge_chunks": 1,
    }


def make(name, raw):
    rng = random.Random(name)
    dynamic = raw["dynamic_relations"]
    names = DYNAMIC if dynamic else [relation["name"] for relation in raw["relations"]]
    tails = THINGS if "things" in raw["entities"] else PEOPLE
    edges = [(h, r, t) for h in PEOPLE for r in names for t in tails if rng.random() < 0.4]
    edges += [(h, names[0], t) for h, t in product(PEOPLE, tails)][::4]
    edges += [(h, names[0], tails[0]) for h in PEOPLE] + [(PEOPLE[0], names[-1], t) for t in tails]
    edges += [(PEOPLE[0], r, tails[0]) for r in names]
    Path(name).mkdir()
    Path(f"{name}/edges.tsv").write_text("".join("\t".join(edge) + "\n" for edge in edges), encoding="utf-8")
    config = parse_config(raw)
    convert_input_data(
        config.entities, config.relations, config.entity_path, config.edge_paths, [Path(f"{name}/edges.tsv")],
        lhs_col=0, rhs_col=2, rel_col=1, dynamic_relations=dynamic,
    )  # fmt: skip
    train(config)
    return config


def scores(config):
    """For each side the scores of all triples, [heads, relations, tails] in the order of the rows."""
    model = make_model(config)
    manager = CheckpointManager(config.checkpoint_path)
    state, _ = manager.read_model()
    model.load_state_dict(state, strict=False)
    model = model.double()
    for kind, about in config.entities.items():
        parts = [manager.read(kind, part)[0].double() for part in range(about.num_partitions)]
        for side in (Side.LHS, Side.RHS):
            model.set_embeddings(kind, torch.nn.Parameter(torch.cat(parts).clone()), side)
    model.num_batch_negs = model.num_uniform_negs = 1
    relation = config.relations[0]
    sizes = [
        len(model.get_embeddings(kind, side)) for kind, side in ((relation.lhs, Side.LHS), (relation.rhs, Side.RHS))
    ]
    head, tail = (torch.tensor(ids) for ids in zip(*product(*map(range, sizes)), strict=True))
    number = model.num_dynamic_rels or len(config.relations)
    found = {"head": [], "tail": []}
    for r in range(number):
        kind = torch.full((len(head),), r) if config.dynamic_relations else torch.tensor(r)
        with torch.no_grad():  # negatives, which are not read here, are made in the default type
            torch.set_default_dtype(torch.float64)
            result = model(EdgeList(EntityList.from_tensor(head), EntityList.from_tensor(tail), kind))
        torch.set_default_dtype(torch.float32)
        found["head"].append(result.lhs_pos.view(sizes))
        found["tail"].append(result.rhs_pos.view(sizes))
    return {side: torch.stack(parts, 1).numpy() for side, parts in found.items()}


def _anonymous(member):
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def main():
    import os

    folder = Path(sys.argv[1])
    folder.mkdir()
    os.chdir(folder)
    random.seed(1)
    torch.manual_seed(1)
    kinds = {}
    for comparator, bias in product(COMPARATORS, (False, True)):
        name = comparator + ("_bias" if bias else "")
        kinds[f"static_{name}"] = settings(f"static_{name}", comparator, bias, OPERATORS, dynamic=False)
    for number, operator in enumerate(OPERATORS):
        for comparator, bias in (
            (COMPARATORS[number % 4], number % 2 == 1),
            (COMPARATORS[(number + 1) % 4], number % 4 > 1),
        ):
            name = f"dynamic_{operator}_{comparator}" + ("_bias" if bias else "")
            kinds[name] = settings(name, comparator, bias, [operator], dynamic=True)
    few = ("none", "diagonal", "translation", "complex_diagonal")
    exported = settings("static_exported", "cos", False, few, dynamic=False)
    for relation in exported["relations"]:
        relation["rhs"] = "people"
    kinds["static_exported"] = exported | {"entities": {"people": {"num_partitions": 2}}}
    arrays, members = {}, []
    for name, raw in kinds.items():
        config = make(name, raw)
        arrays |= {f"{name}/{side}": table for side, table in scores(config).items()}
        members += [*Path(f"{name}/model").glob("*"), *Path(f"{name}/graph").glob("*")]
        if name == "static_exported":  # the export needs this file, which the importer does not write
            Path(f"{name}/graph/dynamic_rel_names.json").write_text(
                json.dumps([relation["name"] for relation in raw["relations"]]), encoding="utf-8"
            )
        try:
            with open(f"{name}/entity_embeddings.tsv", "x", encoding="utf-8") as one, \
                    open(f"{name}/relation_types_parameters.tsv", "x", encoding="utf-8") as other:  # fmt: skip
                make_tsv(config, one, other)
            members += [Path(one.name), Path(other.name)]
        except Exception as error:
            print(f"NOT EXPORTED {name}: {type(error).__name__}: {error}")
    np.savez("scores.npz", **arrays)
    with tarfile.open("pbg_checkpoints.tar.xz", "w:xz", preset=9) as archive:
        for path in [*members, Path("scores.npz")]:
            if path.is_file() and path.name != "training_stats.json":
                archive.add(path, filter=_anonymous)
    print({path.name: path.stat().st_size for path in Path().iterdir() if path.is_file()})


if __name__ == "__main__":
    main()
