"""Readers: files to raw records. Every record is either given or counted with a reason; none stops the file.

A reader is built with its options and the recipe's limits; `read(path, start, end)` gives the records whose first
byte lies in [start, end), so the units of a file that can be split hold every record exactly once.
"""

from pipeline.readers._options import check_options, options_of
from pipeline.readers._reader import Counted, Item, RawRecord, Reader, detect

__all__ = ["Counted", "Item", "RawRecord", "Reader", "check_options", "detect", "options_of"]
