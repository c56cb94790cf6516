"""Checks of shard sets: manifest against content, rules for rows, examples restored to their samples."""
