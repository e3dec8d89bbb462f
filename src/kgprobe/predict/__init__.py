"""Step 1, prediction: a scorer and a graph become ranks."""

from kgprobe.predict.frequency import Frequency, rank_by_frequency

__all__ = ["Frequency", "rank_by_frequency"]
