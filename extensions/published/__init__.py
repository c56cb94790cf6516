"""Import and export models in the form of transformers, and export adapters for peft.

Files import torch.
"""
