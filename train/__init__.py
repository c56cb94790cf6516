"""The ZeRO trainer: streams example shards into a model."""
