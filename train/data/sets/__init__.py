"""Open the shard sets of a run, and check that they fit its model."""
