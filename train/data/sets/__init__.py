"""The shard sets of a run, and whether they fit its model: heads, columns, tokenizers, lengths."""
