"""Make models smaller and faster: distillation, pruning, quantization, early exit.

Files outside of `keys` import torch.
"""

NEEDS = ("published",)
