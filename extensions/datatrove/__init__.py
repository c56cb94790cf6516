"""Blocks of datatrove in a recipe, and our documents in its pipelines."""
