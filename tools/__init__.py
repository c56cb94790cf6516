"""Scripts for people: start a project, look into shards, use and change models."""
