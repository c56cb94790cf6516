"""Read JSON lines, compressed or not: each line is an object, each object a document."""

from collections.abc import Iterator

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.formats.decompression import InputFile, decompress_file
from clozeline.pipeline.ingest.formats.portable_json import JSON_DECODER
from clozeline.pipeline.ingest.readers import Item, SkippedRecord
from clozeline.pipeline.ingest.readers._rows import (
    EncodingOptions,
    FieldOptions,
    LineFileReader,
    RowReader,
)


class JsonlReader(RowReader, LineFileReader):
    """Reads one JSON object per line."""

    VERSION = 6
    self_delimiting = True
    suffixes = (".jsonl", ".ndjson", ".json")
    reasons = (*LineFileReader.line_reasons, "bad_json")

    @config_class
    class Options(FieldOptions, EncodingOptions):
        """Names of the fields, and the encoding."""

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        for item in super().read(path, start, end):
            is_bad = isinstance(item, SkippedRecord) and item.reason == "bad_json"
            if is_bad and not item.locator and (why := self._explain_object(path)):
                yield self._records.reject("bad_json", 0, why, [])
                return
            yield item

    def _explain_object(self, path: InputFile) -> str:
        """Return how a file of one object over several lines becomes rows; "" for other files."""
        if path.stat().st_size > self._limits.record_bytes:
            return ""
        pieces = decompress_file(path, self._limits)
        content = b"".join(piece for piece in pieces if isinstance(piece, bytes))
        try:
            lists = [
                name
                for name, value in JSON_DECODER.decode(content.decode("utf-8-sig")).items()
                if isinstance(value, list)
            ]
        except (ValueError, AttributeError, RecursionError):
            return ""
        what, entries = (
            (f"each entry of its list `{lists[0]}`", f".{lists[0]}[]") if lists else ("it", ".")
        )
        return (
            f"it is the start of one JSON object over several lines: write {what} as a line, such "
            f"as by `jq -c '{entries}' {path.name} > rows.jsonl`"
        )

    def parse(self, line: str, offset: int, length: int) -> Item:
        try:
            value = JSON_DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            why = (
                f"it is not valid JSON: {getattr(error, 'msg', error)} at character "
                f"{getattr(error, 'pos', 0) + 1}"
            )
            return self._records.reject("bad_json", offset, why, [line])
        if not isinstance(value, dict):
            return self._records.reject(
                "bad_json", offset, "it is valid JSON, but not an object", [line]
            )
        return self._records.make(value, "jsonl", offset, length)
