"""Models with their weights, in folders of ours and in published forms."""
