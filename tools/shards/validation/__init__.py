"""Check shard sets.

Manifest against content, rules for rows, examples restored to their samples.
"""
