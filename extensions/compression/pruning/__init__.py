"""Pruning during training, one method per file, selected by the key `prune`.

A method is a hook that decides what to remove from a model, and after which steps. Masks are stored
next to the optimizer's tensors, so they are sharded, saved and resumed like optimizer state. The
weights of a checkpoint are always masked: whoever loads a run gets the pruned model.
"""

from clozeline.extensions.compression.pruning._pruning import Pruning

__all__ = ["Pruning"]
