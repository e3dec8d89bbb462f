"""Write the folders beside this file with DGL-KE itself, and the scores that its own functions give.

Run with dglke 0.1.2 from PyPI (it needs dgl 1.1.3, setuptools below 66, torch, pandas, requests and packaging):
``python make_dgl_ke.py FOLDER``. The graph, the files of names, config.json and the arrays are written by the library:
KGDatasetUDDRaw, KEModel.save_emb and save_model. Embeddings are those of its initialisation.
"""

import json
import sys
from argparse import Namespace
from pathlib import Path
from shutil import copy
from types import SimpleNamespace

import numpy as np

ENTITIES = ["ada", 'b"ob', "cyd,d", "dän", "e e", "#f", "0", "1"]
RELATIONS = ["knows", "lives in", "is,a"]
DOUBLED = {
    "TransE": (False, False),
    "TransE_l1": (False, False),
    "TransE_l2": (False, False),
    "TransR": (False, False),
    "RESCAL": (False, False),
    "DistMult": (False, False),
    "ComplEx": (True, True),
    "RotatE": (True, False),
}
HIDDEN, GAMMA = 4, 6.5
OPTIONS = {
    "max_step": 10,
    "batch_size": 8,
    "neg_sample_size": 4,
    "lr": 0.1,
    "neg_adversarial_sampling": False,
    "adversarial_temperature": 1.0,
    "regularization_coef": 0.0,
    "regularization_norm": 3,
    "has_edge_importance": False,
    "mix_cpu_gpu": False,
    "gpu": [-1],
    "strict_rel_part": False,
    "soft_rel_part": False,
    "num_proc": 1,
    "async_update": False,
}


def write_graph(folder):
    rng = np.random.default_rng(3)
    drawn = {tuple(t) for t in np.column_stack([rng.integers(0, n, 60) for n in (8, 3, 8)]).tolist()}
    triples = sorted(drawn)
    rng.shuffle(triples)
    folder.mkdir(parents=True)
    for split, some in {"train": slice(30), "valid": slice(30, 36), "test": slice(36, 44)}.items():
        lines = [f"{ENTITIES[h]}\t{RELATIONS[r]}\t{ENTITIES[t]}\n" for h, r, t in triples[some]]
        (folder / f"{split}.txt").write_text("".join(lines), encoding="utf-8")


def main(out):
    import torch
    from dglke.dataloader.KGDataset import KGDatasetUDDRaw
    from dglke.models.general_models import KEModel
    from dglke.utils import save_model

    write_graph(out / "graph")
    files = [f"{split}.txt" for split in ("train", "valid", "test")]
    dataset = KGDatasetUDDRaw(str(out / "graph"), "tiny", "\t", files, "hrt")
    size, count = dataset.n_entities, dataset.n_relations
    scores = {}
    for number, (model, (double_ent, double_rel)) in enumerate(DOUBLED.items()):
        torch.manual_seed(number)
        folder = out / f"{model}_tiny_0"
        own = {"save_path": str(folder), "dataset": "tiny", "model_name": model, "hidden_dim": HIDDEN, "gamma": GAMMA}
        args = Namespace(**own, **OPTIONS, double_ent=double_ent, double_rel=double_rel)
        trained = KEModel(args, model, size, count, HIDDEN, GAMMA, double_ent, double_rel)
        save_model(args, trained, dataset.emap_fname, dataset.rmap_fname)
        for name in (dataset.emap_fname, dataset.rmap_fname):
            copy(out / "graph" / name, folder / name)
        scores[f"{model}_triples"] = positive_scores(trained, size, count)
        scores[f"{model}_tails"] = tail_candidate_scores(trained, size, count)
    np.savez_compressed(out / "scores.npz", **scores)
    for name in (dataset.emap_fname, dataset.rmap_fname):
        (out / "graph" / name).unlink()
    print(json.dumps(sorted(scores)))


def positive_scores(trained, size, count):
    """The scores of all triples [heads, relations, tails] by the function that scores positive triples."""
    import torch

    h, r, t = (index.ravel() for index in np.indices((size, count, size)))
    entity, relation = trained.entity_emb.emb, trained.relation_emb.emb
    edges = SimpleNamespace(src={"emb": entity[h]}, dst={"emb": entity[t]}, data={"emb": relation[r]})
    if trained.model_name == "TransR":
        matrices = trained.score_func.projection_emb.emb[r].reshape(-1, trained.entity_dim, trained.rel_dim)
        edges.data["head_emb"] = torch.einsum("ab,abc->ac", entity[h], matrices)
        edges.data["tail_emb"] = torch.einsum("ab,abc->ac", entity[t], matrices)
    return trained.score_func.edge_func(edges)["score"].reshape(size, count, size).numpy()


def tail_candidate_scores(trained, size, count):
    """The same by the functions that score the candidates of tails in training and in evaluation."""
    import torch

    entity, relation = trained.entity_emb.emb, trained.relation_emb.emb
    scores = np.empty((size, count, size), dtype=np.float32)
    for h, r in np.ndindex(size, count):
        head, tails = trained.tail_neg_prepare(torch.tensor([r]), 1, entity[[h]], entity, -1)
        scores[h, r] = trained.tail_neg_score(head, relation[[r]], tails, 1, 1, size).reshape(size).numpy()
    return scores


if __name__ == "__main__":
    main(Path(sys.argv[1]))
