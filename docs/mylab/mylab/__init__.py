"""Train on rare tokens, and count words."""

NEEDS = ("tasks",)
