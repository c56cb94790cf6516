"""Studies: variants of a training at equal arithmetic, measured on the same held-out rows."""
