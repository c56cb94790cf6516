"""Score models on tasks, texts, minimal pairs and layers, and answer by prompts.

Files outside of `commands` import torch.
"""

NEEDS = ("tasks",)
