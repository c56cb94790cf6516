"""Scores of trained models on tasks: predictions, metrics, and the trivial baselines beside each."""
