"""Read JSON lines, plain or compressed: each line is an object, each object a document."""

import json
from typing import ClassVar, Final

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.readers import Counted, Item
from clozeline.pipeline.ingest.readers._rows import EncodingOptions, FieldOptions, LineFile, make_record, parse_integer

_DECODER: Final = json.JSONDecoder(parse_int=parse_integer)  # `json.loads` makes one for each line


class Jsonl(LineFile):
    """Reads one JSON object per line."""

    VERSION: ClassVar[int] = 2
    self_delimiting: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")
    reasons: ClassVar[tuple[str, ...]] = (*LineFile.line_reasons, "bad_json")

    @config_class
    class Options(FieldOptions, EncodingOptions):
        """Names of the fields, and the encoding."""

    def parse(self, line: str, offset: int, length: int) -> Item:
        try:
            value = _DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            why = f"line 1 is no JSON: {getattr(error, 'msg', error)} at character {getattr(error, 'pos', 0) + 1}"
            return Counted("malformed", "bad_json", offset, detail="" if offset else why)
        if not isinstance(value, dict):
            why = "line 1 is JSON, but no object"
            return Counted("malformed", "bad_json", offset, detail="" if offset else why)
        return make_record(value, self._options, "jsonl", offset, length)
