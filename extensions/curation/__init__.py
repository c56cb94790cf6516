"""Choose what a corpus holds: copies by language and source, and no items of evaluation sets."""
