"""The ten configurations of the PROBE paper's open-world experiment, and the sizes that this benchmark trains them in.

All is as in the paper but for dimension, learning rate and, for ComplEx, gamma, so that one training takes 10 to 20 s
on an H200 (1 to 2 min with four at once) and not hours:

- dimensions are halved. The initial coordinates of RotatE are then twice as large, as gamma stays. Those of ComplEx,
  whose gamma serves nothing else (they lie between -(gamma + 2)/dimension and +(gamma + 2)/dimension), must not be, so
  that its gamma is halved too;
- learning rates are such that the closed MRR passes one half early and ends at .81 to .99, and are divided by ten after
  half of the epochs, as in the RotatE code base. RotatE's are larger than the paper's, since its coordinates are
  larger and its trainings shorter; ComplEx's differ less from each other than in the paper;
- the paper does not say how long it trains; here it is 22 to 60 epochs, about as many seconds for each configuration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from kgprobe.models.complex import ComplExOptions
from kgprobe.models.rotate import RotatEOptions
from kgprobe.train.settings import Settings


class Scaled(NamedTuple):
    """A number of the paper's table, and what is used here."""

    paper: float
    ours: float


@dataclass(frozen=True)
class Configuration:
    """A row of the paper's table of configurations.

    Attributes:
        temperature: Of the self-adversarial weights, alpha in the table.
        l3: Weight of the cubes of all coordinates.
        epochs: How long it is trained here.
    """

    name: str
    model: str
    batch_size: int
    negatives: int
    dimension: Scaled
    gamma: Scaled
    temperature: float
    learning_rate: Scaled
    l3: float
    epochs: int

    def resized(self, dimension: int) -> Configuration:
        """As fast a learner with vectors of another length: coordinates move as far in relation to their size."""
        size = dimension / self.dimension.ours
        gamma, rate = self.gamma, self.learning_rate
        changes: dict[str, dict[str, Any]] = {
            "RotatE": {"learning_rate": rate._replace(ours=rate.ours / size)},
            "ComplEx": {"gamma": gamma._replace(ours=gamma.ours * size)},
        }
        return replace(self, dimension=self.dimension._replace(ours=dimension), **changes[self.model])

    def settings(self) -> Settings:
        """What the trainer is told."""
        return Settings(
            self.model,
            OPTIONS[self.model](int(self.dimension.ours), self.gamma.ours),
            objective="negative_sampling",
            loss="self_adversarial",
            epochs=self.epochs,
            batch_size=self.batch_size,
            negatives=self.negatives,
            adversarial_temperature=self.temperature,
            regulariser="l3" if self.l3 else "none",
            regularisation=self.l3,
            learning_rate=self.learning_rate.ours,
            schedule="steps",
            validate_every=self.epochs,
            snapshot_every=1,
        )


OPTIONS: Mapping[str, Callable[[int, float], Any]] = {
    "RotatE": lambda dimension, gamma: RotatEOptions(dimension, gamma=gamma),
    # As wide as the even distribution of the RotatE code base.
    "ComplEx": lambda dimension, gamma: ComplExOptions(dimension, initial_scale=(gamma + 2) / dimension / math.sqrt(3)),
}


def _rotate(
    number: int, batch: int, negatives: int, dimension: Scaled, gamma: float, alpha: float, rate: Scaled, epochs: int
) -> Configuration:
    margin = Scaled(gamma, gamma)
    return Configuration(
        f"RotatE{number}", "RotatE", batch, negatives, dimension, margin, alpha, rate, l3=0.0, epochs=epochs
    )


def _complex(
    number: int, batch: int, negatives: int, gamma: Scaled, alpha: float, rate: Scaled, epochs: int
) -> Configuration:
    return Configuration(
        f"ComplEx{number}", "ComplEx", batch, negatives, Scaled(1000, 500), gamma, alpha, rate, l3=1e-5, epochs=epochs
    )


SCALED = (
    _rotate(1, 1024, 128, Scaled(1000, 500), 24, 1.0, Scaled(5e-5, 4e-4), epochs=60),
    _rotate(2, 512, 128, Scaled(500, 250), 24, 1.0, Scaled(5e-5, 4e-4), epochs=60),
    _rotate(3, 128, 128, Scaled(200, 100), 24, 1.0, Scaled(5e-5, 4e-4), epochs=40),
    _rotate(4, 128, 512, Scaled(500, 250), 18, 1.0, Scaled(5e-5, 3e-4), epochs=22),
    _rotate(5, 128, 128, Scaled(1000, 500), 12, 0.5, Scaled(5e-5, 2e-4), epochs=30),
    _complex(1, 1024, 128, Scaled(500, 250), 1.0, Scaled(1e-3, 3e-3), epochs=40),
    _complex(2, 512, 128, Scaled(200, 100), 1.0, Scaled(1e-4, 5e-4), epochs=40),
    _complex(3, 128, 128, Scaled(500, 250), 0.5, Scaled(5e-3, 1e-3), epochs=22),
    _complex(4, 256, 128, Scaled(200, 100), 0.5, Scaled(1e-3, 5e-4), epochs=30),
    _complex(5, 512, 256, Scaled(500, 250), 1.0, Scaled(1e-3, 3e-3), epochs=24),
)

"""The paper's table in its order."""

CONFIGURATIONS: Mapping[str, Configuration] = {configuration.name: configuration for configuration in SCALED}
