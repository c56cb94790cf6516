"""Write the shards of a column set of scores, in one process or several."""
