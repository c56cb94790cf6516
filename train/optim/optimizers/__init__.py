"""Optimizers, one per file: each builds a torch optimizer from named parameter groups.

ZeRO stages 1 to 3 hand the optimizer flat pieces of many parameters. One whose update of an element needs more than
that element is told, by `bind`, which elements of which parameters these are. The learning rate of a step is written
into the groups by the engine.
"""

from clozeline.train.optim.optimizers._optimizer import AVERAGE, OptimizerBuilder, OptimizerOptions

__all__ = ["AVERAGE", "OptimizerBuilder", "OptimizerOptions"]
