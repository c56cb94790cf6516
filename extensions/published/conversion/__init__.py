"""Convert checkpoints of transformers to our parameters and back, with maps of model types."""
