"""Contents of a shard set, counted block by block: sums, tables and pictures."""
