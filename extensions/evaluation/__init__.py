"""Score models on tasks, texts, minimal pairs, facts and layers, and answer by prompts.

Its files import torch, but for the command lines and the templates.
"""

EXTRA = "lm-eval"
