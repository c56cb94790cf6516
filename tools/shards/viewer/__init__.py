"""Rows of shard sets, shown to people: a row's columns decide how it is shown, never its objective's name."""
