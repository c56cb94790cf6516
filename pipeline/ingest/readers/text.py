"""Read plain text: the file is the document."""

from typing import ClassVar

from clozeline.pipeline.ingest.readers._whole_file import WholeFile


class Text(WholeFile):
    """Reads a file, compressed or not, in the encoding that fits."""

    VERSION: ClassVar[int] = 2
    suffixes: ClassVar[tuple[str, ...]] = (".txt", ".text", ".md", ".rst")
    kind: ClassVar[str] = "text"
    markup: ClassVar[bool] = False
