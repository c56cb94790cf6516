"""Optimizers, one per file: each builds a torch optimizer from named parameter groups.

ZeRO stages 1 to 3 hand the optimizer flat pieces of many parameters, so only `elementwise` ones may be used there.
The learning rate of a step is written into the groups by the engine.
"""

from train.optimizers._optimizer import AVERAGE, OptimizerBuilder, OptimizerOptions

__all__ = ["AVERAGE", "OptimizerBuilder", "OptimizerOptions"]
