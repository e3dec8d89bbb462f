"""Models of the PyKEEN library, in memory and from its saved folders."""

from kgprobe.predict.sources.pykeen.adapter import is_pykeen, scorer_of
from kgprobe.predict.sources.pykeen.fit import ModelNames, scorer_for
from kgprobe.predict.sources.pykeen.save import save_for_ranking
from kgprobe.predict.sources.pykeen.saved import is_saved_pykeen, open_pykeen

__all__ = ["ModelNames", "is_pykeen", "is_saved_pykeen", "open_pykeen", "save_for_ranking", "scorer_for", "scorer_of"]
