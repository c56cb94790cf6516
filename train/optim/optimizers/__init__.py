"""Optimizers, one per file; see `_optimizer.py` for the interface."""

from clozeline.train.optim.optimizers._optimizer import OptimizerBuilder, OptimizerOptions

__all__ = ["OptimizerBuilder", "OptimizerOptions"]
