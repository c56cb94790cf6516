"""Web pages with their main text marked by people, and how an extraction is scored against it.

The folder holds `article_extraction.tar.zst` (scrapinghub/article-extraction-benchmark),
`readability.tar.zst` (mozilla/readability's test pages) and `trafilatura_eval.tar.zst`
(adbar/trafilatura's evaluation).
"""

import html
import json
import re
import tarfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

from clozeline.pipeline.ingest.formats.charset import decode

SETS = ("article", "readability", "strings")
_BLOCK_TAGS = (
    "p|div|li|ul|ol|h[1-6]|td|th|tr|table|pre|blockquote|br|hr|section|article|figure|figcaption|dd|dt|dl|"
    "header|footer|aside|main|center|address|form|nav|details|summary|caption"
)
_BREAK = re.compile(rf"<(?:/?(?:{_BLOCK_TAGS})\b)[^>]*>", re.IGNORECASE)
_UNSEEN = re.compile(
    r"<(script|style|svg|noscript)\b.*?</\1\s*>|<!--.*?-->", re.IGNORECASE | re.DOTALL
)
_TAG = re.compile(r"<[^>]*>")
_TOKEN = re.compile(r"\w+")
SHINGLE = 4


@dataclass(frozen=True)
class MarkedPage:
    """A page with its main text (`gold`) or with strings to judge its extraction by.

    The extraction must hold some of these strings, and must not hold others.
    """

    name: str
    set: str
    html: str
    gold: str = ""
    present: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def read_pages(folder: Path) -> list[MarkedPage]:
    """Return the pages of all three sets by set and name.

    FileNotFoundError names a missing archive.
    """
    files = unpack(folder / "article_extraction.tar.zst")
    truth = json.loads(files["ground-truth.json"])
    pages = [
        MarkedPage(name, "article", _text(files[f"html/{name}.html"]), truth[name]["articleBody"])
        for name in sorted(truth)
        if f"html/{name}.html" in files
    ]

    files = unpack(folder / "readability.tar.zst")
    for source in sorted(name for name in files if name.endswith("/source.html")):
        expected = files.get(source.replace("source.html", "expected.html"))
        if expected is not None:
            gold = read_plainly(_text(expected))
            pages.append(
                MarkedPage(source.split("/")[-2], "readability", _text(files[source]), gold)
            )

    files = unpack(folder / "trafilatura_eval.tar.zst")
    for url, entry in sorted(json.loads(files["evaldata.json"]).items()):
        body = files.get(entry["file"])
        if body is not None:
            strings = tuple(entry["with"]), tuple(entry["without"])
            pages.append(MarkedPage(url, "strings", _text(body), "", *strings))

    return pages


def unpack(path: Path) -> dict[str, bytes]:
    """Return the files of an archive by their path without a leading folder of its own name."""
    with (
        path.open("rb") as file,
        tarfile.open(fileobj=zstandard.ZstdDecompressor().stream_reader(file), mode="r|") as tar,
    ):
        return {
            member.name.removeprefix("./"): extracted.read()
            for member in tar
            if member.isfile() and (extracted := tar.extractfile(member)) is not None
        }


def _text(body: bytes) -> str:
    decoded = decode(body, meta=True)
    return decoded[0] if decoded else body.decode("utf-8", "replace")


def read_plainly(markup: str) -> str:
    """Return the text of clean HTML by patterns, independent of the parsers that are compared."""
    return html.unescape(_TAG.sub("", _BREAK.sub("\n", _UNSEEN.sub("", markup))))


def tokens_of(text: str) -> list[str]:
    return _TOKEN.findall(text)


def count_shingles(tokens: Sequence[str]) -> Counter[tuple[str, ...]]:
    """Count runs of four tokens; a shorter text is one run."""
    if len(tokens) <= SHINGLE:
        return Counter([tuple(tokens)] if tokens else [])
    return Counter(zip(*(tokens[start:] for start in range(SHINGLE)), strict=False))


def score_texts(pairs: Iterable[tuple[str, str]]) -> dict[str, float]:
    """Return precision and recall of shingles, and F1 of their averages.

    Both are averaged over (extracted, gold) pairs.
    """
    precisions = []
    recalls = []
    for text, gold in pairs:
        ours = count_shingles(tokens_of(text))
        theirs = count_shingles(tokens_of(gold))
        shared = (ours & theirs).total()
        precisions.append(shared / ours.total() if ours else float(not theirs))
        recalls.append(shared / theirs.total() if theirs else float(not ours))
    return _f1(sum(precisions) / len(precisions), sum(recalls) / len(recalls))


def score_strings(texts: Iterable[tuple[str, MarkedPage]]) -> dict[str, float]:
    """Return precision, recall and F1 over all strings.

    A string counts as right if it is present and must be; as wrong if it must not be.
    """
    kept = wrong = total = 0
    for text, page in texts:
        folded = " ".join(text.split())
        kept += sum(" ".join(string.split()) in folded for string in page.present)
        wrong += sum(" ".join(string.split()) in folded for string in page.absent)
        total += len(page.present)
    return _f1(kept / max(kept + wrong, 1), kept / max(total, 1))


def _f1(precision: float, recall: float) -> dict[str, float]:
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / max(precision + recall, 1e-12),
    }
