import subprocess
import sys

_GROWS = """
import numpy as np
from kgprobe.train.memory import peak_memory
before = peak_memory()["host"]
grown = np.ones(1 << 26)  # half a gibibyte
print(peak_memory()["host"] - before)
"""


def test_what_a_process_has_held_at_most_grows_with_what_it_holds() -> None:
    grown = int(subprocess.run([sys.executable, "-c", _GROWS], capture_output=True, check=True, text=True).stdout)
    assert (1 << 28) < grown < (1 << 30)
