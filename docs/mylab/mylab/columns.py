"""Columns that the objective `graded_tokens` writes, and the head `rarity` reads."""

from clozeline.columns import Feature, Role

LEVELS = 4
RARITY = Feature(
    "rarity",
    "uint8",
    Role("label", "label_positions", head="rarity", below=LEVELS),
    "how rare each label is",
)
RAREST = Feature(
    "rarest",
    "uint8",
    Role("row", head="rarity", below=LEVELS),
    "how rare the rarest label of the row is",
)
