"""Start a run: at step 0, from another model's weights, or at a checkpoint."""
