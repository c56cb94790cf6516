"""Show rows of shard sets, and tokenize short texts to try an objective without a corpus."""
