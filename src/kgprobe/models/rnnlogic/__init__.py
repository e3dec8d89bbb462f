"""RNNLogic (Qu et al. 2021): rules that a recurrent network proposes, and a predictor that reasons with them."""

from kgprobe.models.rnnlogic.model import RNNLogic
from kgprobe.models.rnnlogic.options import RNNLogicOptions

__all__ = ["RNNLogic", "RNNLogicOptions"]
