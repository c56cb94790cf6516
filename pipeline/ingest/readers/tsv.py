"""Read tab-separated lines, plain or compressed: each line is a text or a pair of aligned texts."""

from dataclasses import field
from typing import Annotated, ClassVar

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.pipeline.ingest.readers import Counted, Item, RawRecord
from clozeline.pipeline.ingest.readers._rows import EncodingOptions, FieldOptions, LineFile, make_record

_TEXT, _TARGET = "text", "target_text"


class Tsv(LineFile):
    r"""Splits fields at every tab and lines at every `\n`; quotes and header lines have no meaning.

    The columns `text`, `target_text` and `url` become those of the document, others go to `extra`. A line with more or
    fewer fields is counted as `fields`.

    Example (columns text, target_text):
        `It is raining.<tab>Es regnet.`
    """

    VERSION: ClassVar[int] = 2
    suffixes: ClassVar[tuple[str, ...]] = (".tsv",)
    reasons: ClassVar[tuple[str, ...]] = (*LineFile.line_reasons, "fields")

    @config_class
    class Options(EncodingOptions):
        columns: Annotated[list[str], Field(min_length=1)] = field(default_factory=lambda: [_TEXT, _TARGET])
        """names of the columns in order, including `text`"""

        def __post_init__(self) -> None:
            super().__post_init__()
            if len(set(self.columns)) < len(self.columns) or _TEXT not in self.columns:
                raise ValueError(f"columns {self.columns}: expected names that differ, `text` among them")

    def parse(self, line: str, offset: int, length: int) -> Item:
        columns = self._options.columns
        fields = line.removesuffix("\r").split("\t")
        if len(fields) != len(columns):
            return Counted("malformed", "fields", offset)
        row = dict(zip(columns, fields, strict=True))
        target = row.pop(_TARGET, None)
        if target is not None and not row[_TEXT].strip():
            return RawRecord(offset, "tsv", length, "", target_text=target)
        item = make_record(row, FieldOptions(), "tsv", offset, length)
        return item._replace(target_text=target) if isinstance(item, RawRecord) else item
