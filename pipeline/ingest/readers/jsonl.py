"""Read JSON lines, plain or compressed: each line is an object, each object a document."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.ingest.readers import Counted, Item
from clozeline.pipeline.ingest.readers._rows import EncodingOptions, FieldOptions, LineFile, RecordMaker, parse_integer

_DECODER: Final = json.JSONDecoder(parse_int=parse_integer)  # `json.loads` makes one for each line


class Jsonl(LineFile):
    """Reads one JSON object per line."""

    VERSION: ClassVar[int] = 3
    self_delimiting: ClassVar[bool] = True
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")
    reasons: ClassVar[tuple[str, ...]] = (*LineFile.line_reasons, "bad_json")

    @config_class
    class Options(FieldOptions, EncodingOptions):
        """Names of the fields, and the encoding."""

    def __init__(self, options: Any, limits: Limits) -> None:
        super().__init__(options, limits)
        self._records = RecordMaker(options)

    def unfound_keys(self) -> Sequence[str]:
        return self._records.unfound_keys()

    def parse(self, line: str, offset: int, length: int) -> Item:
        try:
            value = _DECODER.decode(line)
        except (ValueError, RecursionError) as error:
            why = f"line 1 is no JSON: {getattr(error, 'msg', error)} at character {getattr(error, 'pos', 0) + 1}"
            return Counted("malformed", "bad_json", offset, detail="" if offset else why)
        if not isinstance(value, dict):
            why = "line 1 is JSON, but no object"
            return Counted("malformed", "bad_json", offset, detail="" if offset else why)
        return self._records.make(value, "jsonl", offset, length)
