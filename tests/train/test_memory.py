import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

_GROWS = """
import numpy as np
import psutil
from kgprobe.train.memory import peak_memory
before = peak_memory()["host"]
grown = np.ones(1 << 26)  # half a gibibyte
print(peak_memory()["host"] - before, peak_memory()["host"] / psutil.Process().memory_info().rss)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
def test_what_a_process_has_held_at_most_is_its_own_and_grows_with_what_it_holds() -> None:
    held = np.ones(1 << 27)  # a gibibyte here is none there
    told = subprocess.run([sys.executable, "-c", _GROWS], capture_output=True, check=True, text=True).stdout
    grown, of_what_it_holds = map(float, told.split())
    assert held.all()
    assert (1 << 28) < grown < (1 << 30)
    assert 0.9 < of_what_it_holds < 1.2
