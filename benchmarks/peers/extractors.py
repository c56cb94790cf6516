"""trafilatura and readability-lxml on pages, run by the interpreter of an environment that has them.

`ask` of datatrove_steps.py runs this file, which imports nothing of the project; an extractor that is not installed is
skipped.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any


def find_extractors() -> dict[str, Callable[[str], str | None]]:
    """Return the installed extractors by name, with the options of our own extractor `trafilatura`."""
    found: dict[str, Callable[[str], str | None]] = {}
    if find_spec("trafilatura"):
        from trafilatura import extract

        logging.getLogger("trafilatura").setLevel(logging.CRITICAL)  # it writes a line for each page without text
        for name, fast in (("trafilatura, fast", True), ("trafilatura", False)):
            found[name] = partial(extract, fast=fast, deduplicate=False, include_comments=False)
    if find_spec("readability"):
        found["readability-lxml"] = summarize
    return found


def summarize(html: str) -> str:
    """Return readability-lxml's summary, which is HTML."""
    from readability import Document
    from readability.readability import Unparseable

    try:
        return str(Document(html).summary())
    except (Unparseable, ValueError):
        return ""


def extract_pages(pages: Sequence[str], repeats: int) -> dict[str, dict[str, Any]]:
    """Return the texts of each extractor, whether they are HTML, and the CPU seconds of each of its passes."""
    answers: dict[str, dict[str, Any]] = {}
    for name, extract in find_extractors().items():
        seconds = []
        for _ in range(1 + repeats):
            start = time.process_time()
            texts = [extract(page) or "" for page in pages]
            seconds.append(time.process_time() - start)
        answers[name] = {"texts": texts, "html": extract is summarize, "seconds": seconds}
    return answers


if __name__ == "__main__":
    sys.stdout.write(json.dumps(extract_pages(json.load(sys.stdin), int(sys.argv[1]))))
