"""Conversion between checkpoints of transformers and our parameters, by the maps of the model types."""
