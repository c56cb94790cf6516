"""Pruning during training, one method per file, chosen by the key `prune`.

Masks live next to the optimizer's tensors, so that they are sharded, saved and resumed like optimizer state. The
weights of a checkpoint are always the masked ones: what reads a run reads the pruned model.
"""

from clozeline.train.compression.pruning._pruning import Pruning

__all__ = ["Pruning"]
