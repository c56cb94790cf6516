"""Scripts for people: look into shards, check them, run experiments."""
