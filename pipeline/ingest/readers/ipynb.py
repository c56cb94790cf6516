"""Read Jupyter notebooks: the sources of all cells are one document."""

import json
from collections.abc import Iterator
from typing import Any

from clozeline.pipeline.ingest.formats.decompression import InputFile
from clozeline.pipeline.ingest.readers import Item, RawRecord, SkippedRecord
from clozeline.pipeline.ingest.readers.text import WholeFileReader


class IpynbReader(WholeFileReader):
    """Joins the sources of all cells, text and code, with blank lines between them.

    Outputs and attachments are dropped. Formats 3 and 4 are read, compressed or not.
    """

    VERSION = 1
    suffixes = (".ipynb",)
    reasons = (*WholeFileReader.reasons, "bad_json")
    locator_type = "ipynb"
    is_markup = False

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        for item in super().read(path, start, end):
            yield _join_sources(item) if isinstance(item, RawRecord) else item


def _join_sources(record: RawRecord) -> Item:
    try:
        notebook = json.loads(record.text.removeprefix("\ufeff"))
        sheets = notebook.get("worksheets", [notebook])  # format 3 has sheets of cells
        cells: list[dict[str, Any]] = [cell for sheet in sheets for cell in sheet["cells"]]
        sources = [cell.get("source", cell.get("input")) or "" for cell in cells]
        texts = [source if isinstance(source, str) else "".join(source) for source in sources]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        why = (
            f"{error.msg} at character {error.pos + 1}"
            if isinstance(error, json.JSONDecodeError)
            else "it has no cells"
        )
        return SkippedRecord("malformed", "bad_json", detail=f"expected a notebook in JSON: {why}")

    texts = [text.strip("\n") for text in texts if text.strip()]
    return record._replace(text="\n\n".join(texts))
