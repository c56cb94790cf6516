"""Transformer and recurrent language models in PyTorch: layers, families and heads.

Never imports the pipeline.
"""
