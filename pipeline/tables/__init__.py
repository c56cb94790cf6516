"""Read files with rows or texts, for all commands, in the formats of `pipeline/ingest/readers`.

`open_table` reads the rows of a file as named columns, `read_texts` the texts of documents, and
`read_text_lines` the lines of a file.
"""

from clozeline.pipeline.tables.lines import (
    SentenceLines,
    read_full_text,
    read_json_value,
    read_list,
    read_sentences,
    read_text_lines,
)
from clozeline.pipeline.tables.rejected import Rejected, attach_texts, iterate_strings
from clozeline.pipeline.tables.row_files import (
    PART,
    Row,
    RowFile,
    normalize_row,
    open_table,
    read_rows,
)
from clozeline.pipeline.tables.texts import (
    KeyedTexts,
    find_text_files,
    read_named_texts,
    read_texts,
)

__all__ = [
    "PART",
    "KeyedTexts",
    "Rejected",
    "Row",
    "RowFile",
    "SentenceLines",
    "attach_texts",
    "find_text_files",
    "iterate_strings",
    "normalize_row",
    "open_table",
    "read_full_text",
    "read_json_value",
    "read_list",
    "read_named_texts",
    "read_rows",
    "read_sentences",
    "read_text_lines",
    "read_texts",
]
