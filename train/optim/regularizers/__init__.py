"""Regularizers, one per file: each chooses anchors and strengths that weights are pulled to.

The penalty is s/2 (w - a)² for a weight w, its anchor a and strength s. It is applied after each
optimizer update as a proximal step, w - r s / (1 + r s) (w - a) at learning rate r, stable for any
strength.
"""

from clozeline.train.optim.regularizers._regularizer import Anchored, Regularizer

__all__ = ["Anchored", "Regularizer"]
