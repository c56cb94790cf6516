"""Write rows as lines of JSON, compressed with zstandard or not."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import zstandard

JSON_LINES_SUFFIX: Final = ".jsonl.zst"
_ZSTD_LEVEL: Final = 3


@contextmanager
def open_json_lines(
    path: Path, *, is_packed: bool = True
) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Yield a function that writes a row, with its keys sorted.

    A lone surrogate becomes a question mark.
    """
    compressor = zstandard.ZstdCompressor(_ZSTD_LEVEL)
    with (
        path.open("wb") as file,
        compressor.stream_writer(file, closefd=False) if is_packed else nullcontext(file) as lines,
    ):

        def write(row: Mapping[str, Any]) -> None:
            line = json.dumps(row, sort_keys=True, ensure_ascii=False)
            lines.write(f"{line}\n".encode("utf-8", "replace"))

        yield write
