"""Backends compute and compare scores with NumPy, numba or torch. The ranks are the same with each."""
