"""Agreement of our filters with datatrove's, which split words and sentences with spaCy.

    python -m benchmarks.filters --peer PYTHON [--texts FILE.jsonl]... [--record FILE] [--json FILE]

PYTHON is the interpreter of an environment with the peer: benchmarks/peers/datatrove_steps.py names its packages. Texts
are Python's help topics, the long docstrings and the first modules of its standard library, and the `text` of further
JSONL files. A text agrees if both keep it, or both reject it for the same reason; an edit agrees if the remaining words
are the same. `--record` writes the peer's answers for the tests' documents to a file.
"""

import ast
import json
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from benchmarks.harness import figure, parser, print_table, write_json

import xxhash

from benchmarks.peers.datatrove_steps import PEER, ask
from clozeline.pipeline.text.normal_form import normalize
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.registry import choose

TARGET = 99.5
_PUBLISHED_MARKS = [".", "?", "!", '"', "'"]
_LONGEST = 20_000
_FILTERS: dict[str, Any] = {
    "gopher_quality": "gopher_quality",
    "gopher_quality, datatrove's words": {"name": "gopher_quality", "letter_words": "tokens"},
    "gopher_repetition": "gopher_repetition",
    "fineweb_quality": "fineweb_quality",
    "c4_quality": "c4_quality",
    "c4_quality, published marks": {"name": "c4_quality", "terminal_marks": _PUBLISHED_MARKS},
}
_OWN_RULES = ("gopher_quality",)
"""Cases that differ on purpose, without a target: the peer counts punctuation marks as words."""


def corpora(files: Sequence[Path]) -> dict[str, list[str]]:
    """Return texts by type, normalized as they are stored."""
    modules = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    sources = [path.read_text(encoding="utf-8", errors="replace") for path in modules]
    texts_by_kind = {
        "help topics": list(topics.values()),
        "docstrings": [text for source in sources for text in _docstrings(source) if len(text) > 300],
        "modules": sources[:100],
    }
    for file in files:
        lines = file.read_text(encoding="utf-8").splitlines()
        texts_by_kind[file.stem] = [json.loads(line)["text"] for line in lines]
    cut = {kind: [normalize(text)[:_LONGEST] for text in texts] for kind, texts in texts_by_kind.items()}
    return {kind: [text for text in texts if text] for kind, texts in cut.items()}


def natural_texts() -> list[str]:
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
    """Yield per filter its name, the number of texts that agree, of edits that agree, and the differences."""
    for name, entry in _FILTERS.items():
        judge = choose("clozeline.pipeline.clean.filters", entry).build().judge
        reasons = edits = 0
        differences = []
        for text, (reason, left) in zip(texts, theirs[name.split(",")[0]], strict=True):
            verdict = judge(TextStatistics(text), "en")
            edited = text if verdict.text is None else verdict.text
            reasons += verdict.reason == reason
            edits += verdict.reason == reason and (bool(reason) or edited.split() == left.split())
            if verdict.reason != reason:
                sides = f"ours {verdict.reason or 'keeps'} ({verdict.detail}), peer {reason or 'keeps'}"
                differences.append(f"{name}: {sides}: {' '.join(text[:60].split())}")
        yield name, reasons, edits, differences


def _row(name: str, kind: str, count: int, agree: int, edits: int, target: float | None) -> dict[str, Any]:
    share = 100 * agree / max(1, count)
    numbers = {"filter": name, "texts": kind, "count": count, "agree": agree, "edits": edits}
    return figure(f"{name}: {kind}", "% of equal verdicts", share, None, "datatrove", target,
                  holds=target is None or share >= target, **numbers)  # fmt: skip


def record(python: str, path: Path) -> None:
    """Write the peer's verdicts and words for the tests' documents."""
    from tests.pipeline.clean.filters.documents import digest, documents

    texts = documents(400)
    chunks = sorted({chunk for text in texts for chunk in text.split() if len(chunk) < 100})
    answers = {
        name: [[reason, xxhash.xxh64_hexdigest(" ".join(left.split())) if name == "c4_quality" and not reason else ""]
               for reason, left in answers_of_filter]
        for name, answers_of_filter in ask(python, "verdicts", texts).items()
    }  # fmt: skip
    command = f"python -m benchmarks.filters --peer PYTHON --record {path}"
    words = dict(zip(chunks, ask(python, "tokens", chunks), strict=True))
    content = {"command": command, "documents": digest(texts), "verdicts": answers, "tokens": words}
    path.write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def main() -> int:
    """Compare with the peer; the exit code is 1 if too few verdicts agree."""
    made = parser(__doc__, peer=PEER, record=(Path, "write the peer's answers for the tests to this file"))
    made.add_argument("--texts", type=Path, action="append", default=[], metavar="FILE", help="more texts, JSONL")
    options = made.parse_args()
    if options.peer is None:
        print("filters: skipped, because --peer PYTHON is missing")
        return 0
    if options.record is not None:
        record(options.peer, options.record)
        return 0
    rows, listed = [], []
    for kind, texts in corpora(options.texts).items():
        for name, reasons, edits, differences in compare(texts, ask(options.peer, "verdicts", texts)):
            rows.append(_row(name, kind, len(texts), reasons, edits, None))
            listed += [f"{kind}, {line}" for line in differences]
    totals: list[dict[str, Any]] = []
    for name in _FILTERS:
        own = [row for row in rows if row["filter"] == name]
        sums = {key: sum(row[key] for row in own) for key in ("count", "agree", "edits")}
        target = None if name in _OWN_RULES else TARGET
        totals.append(_row(name, "all", sums["count"], sums["agree"], sums["edits"], target))
    rows += totals
    cells = [
        (row["filter"], row["texts"], row["count"],
         *(f"{100 * row[key] / row['count']:.2f}" for key in ("agree", "edits")))
        for row in rows
    ]  # fmt: skip
    print_table(("filter", "texts", "number", "same verdict, %", "and same words left, %"), cells)
    print(*listed, sep="\n")
    write_json(options.json, rows)
    return int(not all(row["holds"] for row in totals))


if __name__ == "__main__":
    raise SystemExit(main())
