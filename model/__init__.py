"""Layers, families and heads in PyTorch. Never imports the pipeline."""
