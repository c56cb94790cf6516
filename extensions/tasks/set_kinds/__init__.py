"""The kind of set that the stage `tasks` writes."""
