"""Files with rows or texts: one reader for all commands, over the formats of `pipeline/ingest/readers`.

`open_table` reads the rows of a file as named columns, `read_texts` the texts of documents,
`text_lines` lines.
"""

from clozeline.pipeline.tables.lines import (
    SentenceLines,
    read_list,
    read_whole_json,
    read_whole_text,
    sentence_lines,
    text_lines,
)
from clozeline.pipeline.tables.rejected import Rejected, keep_texts, strings_in
from clozeline.pipeline.tables.row_files import (
    PART,
    Row,
    RowFile,
    normalize_row,
    open_table,
    read_rows,
)
from clozeline.pipeline.tables.texts import KeyedTexts, files_of, named_texts, read_texts

__all__ = [
    "PART",
    "KeyedTexts",
    "Rejected",
    "Row",
    "RowFile",
    "SentenceLines",
    "files_of",
    "keep_texts",
    "named_texts",
    "normalize_row",
    "open_table",
    "read_list",
    "read_rows",
    "read_texts",
    "read_whole_json",
    "read_whole_text",
    "sentence_lines",
    "strings_in",
    "text_lines",
]
