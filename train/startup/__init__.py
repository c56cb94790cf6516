"""Begin of a run: at the start, with another model's weights, or at a checkpoint."""
