"""Meaning of heads outside the model, a file each: their tensors, and for heads of tasks predictions and scores."""
