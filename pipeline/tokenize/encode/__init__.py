"""The stage `encode`: tokenize documents and write them as token shards."""
