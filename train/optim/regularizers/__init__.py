"""Regularizers, one per file: each says where a parameter is pulled to, and how strongly.

What is learned is kept by a quadratic penalty s/2 (w - a)² on each weight w with an anchor a and a strength s. The pull
follows each update of the optimizer as a proximal step, w - r s / (1 + r s) (w - a) at the rate r, which is stable for
any strength; its explicit form adds s (w - a) to the gradient instead.
"""

from clozeline.train.optim.regularizers._regularizer import Anchored, Regularizer, RegularizerOptions

__all__ = ["Anchored", "Regularizer", "RegularizerOptions"]
