"""What cannot be imported here is not searched for examples."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["src/kgprobe/models/sampled_scores_triton.py"]
