"""Paged attention, measured: cells, data, clock, contenders, reports. `attention.py` and `ablation.py` use it."""
