"""The directory of a training run: everything to continue it, to repeat it, and to rank what it has found."""
