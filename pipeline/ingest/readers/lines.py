"""Read text files, compressed or not, with one document per line."""

from clozeline.pipeline.ingest.readers import Item, RawRecord
from clozeline.pipeline.ingest.readers._rows import LineFileReader


class LinesReader(LineFileReader):
    """Reads each line as a document. Name it in the recipe: `reader: lines`."""

    VERSION = 3
    reasons = LineFileReader.line_reasons

    def parse(self, line: str, offset: int, length: int) -> Item:
        return RawRecord(offset, "lines", length, line)
