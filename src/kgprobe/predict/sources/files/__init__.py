"""The parts of models that are files: arrays as they are stored, and what they must be to be ranked."""
