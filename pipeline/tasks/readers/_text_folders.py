"""Find and read the text files of a split that is a folder of folders: `train/pos/0_9.txt`, `dev/high/12.txt`."""

from pathlib import Path

from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks.readers._task_items import Rejected


def text_files(path: Path) -> tuple[Path, ...]:
    """Return the text files of the split that a file belongs to, its folder and the folders next to it, in order."""
    return tuple(sorted(path.parent.parent.glob("[!.]*/[!.]*.txt")))


def read_text(path: Path, index: int, limits: Limits) -> str | Rejected:
    """Return the text of a file; it is rejected if it is too long, or not UTF-8."""
    if path.stat().st_size > limits.record_bytes:
        return Rejected("record_bytes", index, f"{path.name} is longer than limits.record_bytes, {limits.record_bytes}")
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return Rejected("bad_utf8", index, f"{path.parent.name}/{path.name} is not UTF-8 ({error})")
