"""Read JSON lines, compressed or not: each line is an object, each object a document."""

from typing import ClassVar

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.formats.portable_json import JSON_DECODER
from clozeline.pipeline.ingest.readers import Item
from clozeline.pipeline.ingest.readers._rows import (
    EncodingOptions,
    FieldOptions,
    LineFileReader,
    RowReader,
)


class JsonlReader(RowReader, LineFileReader):
    """Reads one JSON object per line."""

    VERSION: ClassVar[int] = 4
    self_delimiting: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")
    reasons: ClassVar[tuple[str, ...]] = (*LineFileReader.line_reasons, "bad_json")

    @config_class
    class Options(FieldOptions, EncodingOptions):
        """Names of the fields, and the encoding."""

    def parse(self, line: str, offset: int, length: int) -> Item:
        try:
            value = JSON_DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            why = (
                f"not valid JSON: {getattr(error, 'msg', error)} at character "
                f"{getattr(error, 'pos', 0) + 1}"
            )
            return self._records.reject("bad_json", offset, why, [line])
        if not isinstance(value, dict):
            return self._records.reject("bad_json", offset, "valid JSON, but not an object", [line])
        return self._records.make(value, "jsonl", offset, length)
