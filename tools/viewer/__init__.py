"""Showing rows of shard sets to people: what a row means is read off its columns, never off an objective's name."""
