"""Checks of shard sets: what a set says of itself, what its rows must obey, and whether its examples can be undone."""
