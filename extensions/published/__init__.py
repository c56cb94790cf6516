"""Import and export models and adapters in the forms of transformers and peft.

Files import torch.
"""
