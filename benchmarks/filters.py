"""Agreement of the filters with datatrove's, which splits words and sentences with spaCy.

    python benchmarks/filters.py --peer PYTHON [--texts FILE.jsonl]... [--record FILE] [--json FILE]

PYTHON is the interpreter of an environment with the peer: benchmarks/peers/datatrove_steps.py names its packages. Texts
are Python's help topics, the long docstrings and the first modules of its standard library, and the `text` of further
JSONL files. A text agrees where both keep it or both reject it for the same reason; an edit agrees where the words left
are the same. `--record` writes the peer's answers for the tests' documents to a file.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

os.environ.update(LOGURU_LEVEL="ERROR", OMP_NUM_THREADS="1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import xxhash
from rich.console import Console
from rich.table import Table

from benchmarks.peers.datatrove_steps import ask
from pipeline.registry import choose
from pipeline.text.normal_form import normalise
from pipeline.text.text_statistics import TextStatistics

TARGET = 99.5
_PUBLISHED_MARKS = [".", "?", "!", '"', "'"]
_LONGEST = 20_000
_FILTERS: dict[str, Any] = {
    "gopher_quality": "gopher_quality",
    "gopher_quality, datatrove's words": {"name": "gopher_quality", "letter_words": "tokens"},
    "gopher_repetition": "gopher_repetition",
    "c4_quality": "c4_quality",
    "c4_quality, published marks": {"name": "c4_quality", "terminal_marks": _PUBLISHED_MARKS},
}


_OWN_RULES = ("gopher_quality",)
"""Cases that differ by intent, shown for comparison: the peer counts marks as words where a share of words is asked."""


def corpora(files: Sequence[Path]) -> dict[str, list[str]]:
    """Return texts by kind, in stored form."""
    modules = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    sources = [path.read_text(encoding="utf-8", errors="replace") for path in modules]
    found = {
        "help topics": list(topics.values()),
        "docstrings": [text for source in sources for text in _docstrings(source) if len(text) > 300],
        "modules": sources[:100],
    }
    for file in files:
        lines = file.read_text(encoding="utf-8").splitlines()
        found[file.stem] = [json.loads(line)["text"] for line in lines]
    cut = {kind: [normalise(text)[:_LONGEST] for text in texts] for kind, texts in found.items()}
    return {kind: [text for text in texts if text] for kind, texts in cut.items()}


def natural_texts() -> list[str]:
    """Return the help topics, docstrings and modules that come with Python."""
    return [text for texts in corpora([]).values() for text in texts]


def _docstrings(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


def compare(
    texts: Sequence[str], theirs: dict[str, list[tuple[str, str]]]
) -> Iterator[tuple[str, int, int, list[str]]]:
    """Yield for each filter its name, the texts that agree, the edits that agree, and the differences."""
    for name, entry in _FILTERS.items():
        judge = choose("pipeline.filters", entry).build().judge
        reasons = edits = 0
        differences = []
        for text, (reason, left) in zip(texts, theirs[name.split(",")[0]], strict=True):
            verdict = judge(TextStatistics(text), "en")
            edited = text if verdict.text is None else verdict.text
            reasons += verdict.reason == reason
            edits += verdict.reason == reason and (bool(reason) or edited.split() == left.split())
            if verdict.reason != reason:
                start = " ".join(text[:60].split())
                differences.append(
                    f"{name}: ours {verdict.reason or 'keeps'} ({verdict.detail}), peer {reason or 'keeps'}: {start}"
                )
        yield name, reasons, edits, differences


def record(python: str, path: Path) -> None:
    """Write the peer's verdicts and words of the tests' documents."""
    from tests.pipeline.filters.documents import digest, documents

    texts = documents(400)
    chunks = sorted({chunk for text in texts for chunk in text.split() if len(chunk) < 100})
    answers = {
        name: [[reason, xxhash.xxh64_hexdigest(" ".join(left.split())) if name == "c4_quality" and not reason else ""]
               for reason, left in found]
        for name, found in ask(python, "verdicts", texts).items()
    }  # fmt: skip
    command = f"python benchmarks/filters.py --peer PYTHON --record {path}"
    words = dict(zip(chunks, ask(python, "tokens", chunks), strict=True))
    content = {"command": command, "documents": digest(texts), "verdicts": answers, "tokens": words}
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def main() -> int:
    """Ask the peer, compare, print the table and each difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", metavar="PYTHON", help="interpreter with datatrove and spaCy")
    parser.add_argument("--texts", type=Path, action="append", default=[], metavar="FILE")
    parser.add_argument("--record", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.peer is None:
        Console().print("filters: skipped, since --peer PYTHON is not given")
        return 0
    if options.record is not None:
        record(options.peer, options.record)
        return 0
    rows, listed = [], []
    for kind, texts in corpora(options.texts).items():
        for name, reasons, edits, differences in compare(texts, ask(options.peer, "verdicts", texts)):
            rows.append({"case": name, "texts": kind, "count": len(texts), "agree": reasons, "edits": edits})
            listed += [f"{kind}, {line}" for line in differences]
    for name in _FILTERS:
        chosen = [row for row in rows if row["case"] == name]
        sums: dict[str, Any] = {key: sum(row[key] for row in chosen) for key in ("count", "agree", "edits")}
        rows.append({"case": name, "texts": "all", **sums})
    table = Table("filter", "texts", "number", "same verdict, %", "and same words left, %")
    for row in rows:
        shares = (f"{100 * row[key] / row['count']:.2f}" for key in ("agree", "edits"))
        table.add_row(row["case"], row["texts"], str(row["count"]), *shares)
    console = Console(width=160)
    console.print(table)
    for line in listed:
        console.print(line, markup=False, highlight=False)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    totals = [row for row in rows if row["texts"] == "all"]
    return int(any(100 * row["agree"] / row["count"] < TARGET for row in totals if row["case"] not in _OWN_RULES))


if __name__ == "__main__":
    raise SystemExit(main())
