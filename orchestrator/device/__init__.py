"""Arithmetic over a device's facts: pure, units in the names."""
