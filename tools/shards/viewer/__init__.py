"""Show rows of shard sets to people.

A row's columns decide how it is shown, never its objective's name.
"""
