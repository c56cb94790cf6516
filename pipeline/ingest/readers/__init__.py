"""Readers: files to raw records. Every record is either given or counted with a reason; none stops the file.

A reader is built with its options and the recipe's limits; `read(path, start, end)` gives the records whose first
byte lies in [start, end), so the units of a file that can be split hold every record exactly once.
"""

from clozeline.pipeline.ingest.readers._options import FILE, check_options, options_of, other_files
from clozeline.pipeline.ingest.readers._reader import Counted, Item, OneRange, RawRecord, Reader, detect, is_guess

__all__ = [
    "FILE",
    "Counted",
    "Item",
    "OneRange",
    "RawRecord",
    "Reader",
    "check_options",
    "detect",
    "is_guess",
    "options_of",
    "other_files",
]
