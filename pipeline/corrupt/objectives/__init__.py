"""Objectives: what a model must learn to undo. One per file, each a pure function on batches of sample rows.

An objective maps samples (grouped, uncorrupted token rows) to examples (features that its file declares). It keeps no
state: what it draws follows from (seed, label, variant, sample uid). Reasons why a row cannot be corrupted are codes
of `Skip`.
"""

from clozeline.pipeline.corrupt.objectives._entry import NamedObjective, inline_options
from clozeline.pipeline.corrupt.objectives._objective import Draws, Frame, Objective, Skip, build_objective

__all__ = ["Draws", "Frame", "NamedObjective", "Objective", "Skip", "build_objective", "inline_options"]
