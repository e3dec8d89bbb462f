"""PyKEEN's own training loop: negatives for whole batches, filtered by its Bloom filter, its self-adversarial loss.

It gets as many processes for its batches as the official-style loop has for a side, and is spared the weights of
subsampling, which it does not have, and the regulariser.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from pykeen.losses import NSSALoss
from pykeen.models import ComplEx, RotatE
from pykeen.training import SLCWATrainingLoop, TrainingCallback
from pykeen.triples import CoreTriplesFactory

import kgprobe as kp
from official_loop import workers
from training_task import Clock, Task

MODELS = {"RotatE": RotatE, "ComplEx": ComplEx}

EPOCHS = 1_000_000

"""More than the clock ever lets it do."""


class Timed(TrainingCallback):
    """Shows every step to the clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.loss_of_step = 0.0

    def on_batch(self, epoch: int, batch: object, batch_loss: float, **_: object) -> None:
        """Remember the loss."""
        self.loss_of_step = batch_loss

    def post_batch(self, epoch: int, batch: object, **_: object) -> None:
        """The optimiser has made its step."""
        self.clock.tick(self.loss_of_step)


def run(task: Task, graph: kp.KnowledgeGraph, clock: Clock) -> None:
    """Train until the clock has seen enough."""
    warnings.filterwarnings("ignore", module="pykeen")
    factory = CoreTriplesFactory(
        torch.from_numpy(graph.triples("train").astype(np.int64)), graph.num_entities, graph.num_relations
    )
    margin = task.gamma if task.model == "RotatE" else 0.0
    model = MODELS[task.model](
        triples_factory=factory,
        embedding_dim=task.dimension,
        random_seed=0,
        regularizer=None,
        loss=NSSALoss(margin=margin, adversarial_temperature=task.temperature),
    ).to(clock.device)
    loop = SLCWATrainingLoop(
        model=model,
        triples_factory=factory,
        optimizer=torch.optim.Adam(model.get_grad_params(), lr=task.learning_rate),
        negative_sampler="basic",
        negative_sampler_kwargs={"num_negs_per_pos": task.negatives, "filtered": True},
        automatic_memory_optimization=False,
    )
    loop.train(
        factory,
        num_epochs=EPOCHS,
        batch_size=task.batch_size,
        num_workers=workers(),
        callbacks=Timed(clock),
        use_tqdm=False,
    )
