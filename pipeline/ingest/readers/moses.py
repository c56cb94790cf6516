"""Read two files of aligned lines: line i of both files is a pair."""

from collections.abc import Iterator
from dataclasses import field
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar

from clozeline.configuration.config import config_class
from clozeline.errors import StorageError
from clozeline.pipeline.ingest.formats.byte_lines import ByteLines, Cut
from clozeline.pipeline.ingest.formats.decompression import REASONS, InputFile
from clozeline.pipeline.ingest.reader_options import FILE
from clozeline.pipeline.ingest.readers import Counted, Item, RawRecord, Reader


class Moses(Reader):
    """Reads both files line by line, plain or compressed; the recipe must name the reader and `target_path`.

    The locator is the line index. Files with different numbers of lines cannot be aligned, so the unit fails; a damaged
    stream yields the pairs before the damage. Lines are matched by counting from the start, so a file is one range.

    Example:
        pairs.en `It is raining.`, pairs.de `Es regnet.`
    """

    VERSION: ClassVar[int] = 2
    reasons: ClassVar[tuple[str, ...]] = (*REASONS, "bad_utf8", "line_bytes", "unpaired")

    @config_class
    class Options:
        target_path: str = field(metadata=FILE)
        """file with the other side of each pair"""

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        target = Path(self._options.target_path)
        if not target.is_file():
            raise StorageError(f"{target}: no such file; `target_path` names the other sides of {path}")
        size, target_size = path.stat().st_size, target.stat().st_size
        sides = (
            ByteLines(path, 0, size, self._limits, resume=False),
            ByteLines(target, 0, target_size, self._limits, resume=False),
        )
        cuts: dict[int, tuple[Cut, int]] = {}  # of each side, with the index of the line
        for number, lines in enumerate(zip_longest(*sides)):
            present = {side: line[1] for side, line in enumerate(lines) if line is not None}
            cuts |= {side: (line, number) for side, line in present.items() if isinstance(line, Cut)}
            intact = [line for line in present.values() if not isinstance(line, Cut)]
            if len(intact) == 2:
                yield self._make_item(number, *intact)
            elif cuts:
                yield from (Counted("malformed", "unpaired", number) for _ in intact)
            else:
                raise StorageError(
                    f"{path} and {target}: one ends after line {number}, the other has more; both files must "
                    "have the same number of lines"
                )
        for _, (cut, number) in sorted(cuts.items()):
            yield Counted("malformed", cut.reason, number)

    def _make_item(self, number: int, text: bytes | int, target: bytes | int) -> Item:
        if isinstance(text, int) or isinstance(target, int):
            return Counted("malformed", "line_bytes", number)
        length = len(text) + len(target)
        if not text.strip() and not target.strip():
            return Counted("ignored", "blank_line")
        try:
            encoding = "utf-8" if number else "utf-8-sig"
            first, second = (side.removesuffix(b"\r").decode(encoding) for side in (text, target))
        except UnicodeDecodeError:
            return Counted("malformed", "bad_utf8", number)
        return RawRecord(number, "moses", length, first, target_text=second)
