"""Optimizers, one per file; see `_optimizer.py` for the interface."""

from clozeline.train.optim.optimizers._optimizer import AVERAGE, OptimizerBuilder, OptimizerOptions

__all__ = ["AVERAGE", "OptimizerBuilder", "OptimizerOptions"]
