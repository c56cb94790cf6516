"""Tasks: labelled texts become example sets, one a split, from which heads learn and on which they are scored."""
