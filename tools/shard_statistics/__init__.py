"""What a shard set holds, counted block by block: tallies, tables and pictures."""
