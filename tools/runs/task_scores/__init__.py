"""Score trained models on tasks: predictions, metrics and trivial baselines."""
