"""Pruning during training, one method per file, chosen by the key `prune`.

A method says what of a model goes, and after which steps; the hooks in train/hooks/_pruning.py
apply it. Masks lie next to the optimizer's tensors, so that they are sharded, saved and resumed
like optimizer state. The weights of a checkpoint are always the masked ones: what reads a run reads
the pruned model.
"""

from clozeline.model.compression.pruning._pruning import Pruning, Training

__all__ = ["Pruning", "Training"]
