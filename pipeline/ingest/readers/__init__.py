"""Readers: turn files into raw records. Every record is yielded or counted with a reason; none ends the file.

A reader is built with its options and the limits of the recipe. `read(path, start, end)` yields the records whose first
byte lies in [start, end), so the ranges of a file that can be split hold every record exactly once.
"""

from clozeline.pipeline.ingest.readers._reader import Counted, Item, OneRange, RawRecord, Reader, detect, is_guess

__all__ = ["Counted", "Item", "OneRange", "RawRecord", "Reader", "detect", "is_guess"]
