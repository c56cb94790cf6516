"""Experiments: trainings that are launched, resumed, measured and compared."""
