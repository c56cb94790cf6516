"""Choose what a corpus holds: copies by language and source, no repeats, no items of tests."""
