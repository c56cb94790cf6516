"""Charset detectors on texts in old encodings: which one names an encoding that decodes to the text.

    python -m benchmarks.charsets NOVELS_FOLDER [--json FILE]

NOVELS_FOLDER has `novels_<ISO 639-3>.jsonl.zst`, lines of JSON with a `text`. Up to 40 pieces of 300 and 2,000
characters of each language are encoded in the encodings of its region; those that are ASCII, valid UTF-8, or not
writable are left out. `resiliparse` is what the pipeline asks where nothing is declared.
"""

import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.harness import figure, parser, print_table, write_json

import zstandard
from charset_normalizer import from_bytes
from resiliparse.parse.encoding import detect_encoding

ENCODINGS: Final = {
    **dict.fromkeys(("deu", "fra"), ("iso-8859-1", "cp1252", "cp850")),
    **dict.fromkeys(("spa", "ita", "por"), ("iso-8859-1", "cp1252")),
    **dict.fromkeys(("hun", "pol"), ("iso-8859-2", "cp1250")),
    "gre": ("iso-8859-7", "cp1253"),
    "ukr": ("cp1251", "koi8-u"),
}
LENGTHS: Final = (300, 2000)
PIECES: Final = 40


def _normalizer(body: bytes) -> str:
    best = from_bytes(body).best()
    return "utf-8" if best is None else best.encoding


DETECTORS: Final[dict[str, Callable[[bytes], str]]] = {
    "resiliparse": lambda body: str(detect_encoding(body)),
    "charset-normalizer": _normalizer,
}


def read_pieces(path: Path, length: int) -> Iterator[str]:
    """Yield pieces of the novels of a language, spread over each novel from its first third on."""
    count = 0
    with path.open("rb") as file:
        for line in io.TextIOWrapper(zstandard.ZstdDecompressor().stream_reader(file), "utf-8"):
            text = json.loads(line)["text"]
            for at in range(len(text) // 3, len(text) - length, max(length, len(text) // 40)):
                if count == PIECES:
                    return
                count += 1
                yield text[at : at + length]


def encode_pieces(folder: Path, length: int) -> Iterator[tuple[str, bytes]]:
    """Yield pieces with their bytes in each encoding that can write them, unless these are valid UTF-8."""
    for language, encodings in ENCODINGS.items():
        for piece in read_pieces(folder / f"novels_{language}.jsonl.zst", length):
            for encoding in encodings:
                try:
                    body = piece.encode(encoding)
                except UnicodeEncodeError:
                    continue
                try:
                    body.decode("utf-8")
                except UnicodeDecodeError:
                    yield piece, body


def decodes_to(body: bytes, encoding: str, text: str) -> bool:
    """Return whether an encoding gives the text back."""
    try:
        return body.decode(encoding) == text
    except (UnicodeDecodeError, LookupError):
        return False


def main() -> None:
    """Measure every detector at every length."""
    made = parser(__doc__)
    made.add_argument("folder", type=Path, metavar="NOVELS_FOLDER")
    options = made.parse_args()
    rows, cells = [], []
    for length in LENGTHS:
        samples = list(encode_pieces(options.folder, length))
        shares = []
        for name, detect in DETECTORS.items():
            started = time.process_time()
            right = sum(decodes_to(body, detect(body), text) for text, body in samples)
            milliseconds = 1000 * (time.process_time() - started) / len(samples)
            shares.append(right / len(samples))
            cells.append((name, length, f"{right} of {len(samples)}", f"{shares[-1]:.3f}", f"{milliseconds:.2f}"))
        ours, peer = shares
        case = f"right encoding, {length} characters"
        rows.append(
            figure(case, "share", ours, peer, "charset-normalizer", peer, holds=ours >= peer, pieces=len(samples))
        )
    print_table(("detector", "characters", "right", "share", "ms a text"), cells)
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
