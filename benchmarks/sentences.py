"""Agreement of sentence splitters with the sentences of treebanks (Universal Dependencies), and their speed.

    python -m benchmarks.sentences FILE.conllu[.zst] ... [--json FILE]

The text of a file is its sentences, joined by blanks (Chinese and Japanese: by nothing), with an empty line where the
treebank begins a paragraph or a document. The score is the F1 of sentence starts, the first of the text apart. The
language is the beginning of the file's name. Packages that are installed are measured in the same run: sentencex, pysbd
and blingfire.
"""

import re
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import figure, parser, print_table, write_json

from clozeline.registry import choose
from clozeline.tools.runs.evaluation.local_texts import text_lines

Splitter = Callable[[str, str], Sequence[int]]
FLOORS = {
    "ar_pud": 0.995, "de_pud": 0.995, "en_ewt": 0.92, "en_pud": 0.996, "es_pud": 0.989, "fr_gsd": 0.977,
    "fr_pud": 0.994, "hi_pud": 0.993, "ru_pud": 0.992, "tr_pud": 0.99, "zh_pud": 0.996,
}  # fmt: skip
"""Lowest F1 of our rules that holds, by treebank."""
_PYSBD_PARAGRAPHS = 400
"""pysbd is slow: it gets the first paragraphs alone."""


class Text(NamedTuple):
    """A treebank as text, and the offsets at which its sentences start, without the first."""

    text: str
    starts: frozenset[int]


def read_treebank(path: Path) -> Text:
    """Read the sentences of a CoNLL-U file."""
    between = "" if path.name[:2] in ("zh", "ja") else " "
    parts: list[str] = []
    starts, length, new = set(), 0, False
    for _, line in text_lines(path):
        if line.startswith(("# newdoc", "# newpar")):
            new = True
        elif line.startswith("# text = "):
            parts += ["" if not parts else "\n\n" if new else between, line.removeprefix("# text = ").strip()]
            starts.add(length + len(parts[-2]))
            length, new = length + len(parts[-2]) + len(parts[-1]), False
    return Text("".join(parts), frozenset(starts - {0}))


def f1(text: Text, found: Sequence[int]) -> float:
    """Return the F1 of sentence starts."""
    inner = set(found) - {0}
    return 2 * len(inner & text.starts) / max(1, len(inner) + len(text.starts))


def splitters() -> dict[str, Splitter]:
    """Return our splitters, and those of the installed packages."""
    made: dict[str, Splitter] = {}
    for name, options in (("regex", {}), ("regex, informal", {"informal": True})):
        splitter = choose("clozeline.pipeline.text.sentences", {"name": "regex", **options}).build()
        made[name] = splitter.starts
    for package, make in {"sentencex": _sentencex, "pysbd": _pysbd, "blingfire": _blingfire}.items():
        try:
            made[package] = make(import_module(package))
        except ImportError:
            continue
    return made


def _sentencex(module: Any) -> Splitter:
    return lambda text, language: _offsets(text, module.segment(language, text))


def _pysbd(module: Any) -> Splitter:
    def split(text: str, language: str) -> list[int]:
        segmenter = module.Segmenter(language=language, clean=False, char_span=True)
        return [span.start for span in segmenter.segment(text)]

    return split


def _blingfire(module: Any) -> Splitter:
    return lambda text, _: [start for start, _ in module.text_to_sentences_and_offsets(text)[1]]


def _offsets(text: str, sentences: Sequence[str]) -> list[int]:
    position, starts = 0, []
    for sentence in sentences:
        if (bare := sentence.strip()) and (at := text.find(bare, position)) >= 0:
            starts.append(at)
            position = at + len(bare)
    return starts


def measure(name: str, split: Splitter, text: Text, language: str) -> tuple[float, float]:
    """Return F1 and megabytes a second of CPU time."""
    if name == "pysbd":
        end = next((m.end() for i, m in enumerate(re.finditer("\n\n", text.text)) if i == _PYSBD_PARAGRAPHS), None)
        if end is not None:
            text = Text(text.text[:end], frozenset(start for start in text.starts if start < end))
    start = time.process_time()
    found = split(text.text, language)
    seconds = time.process_time() - start
    return f1(text, found), len(text.text.encode()) / 1e6 / max(seconds, 1e-6)


def main() -> None:
    """Measure every splitter on every file."""
    made = parser(__doc__)
    made.add_argument("files", type=Path, nargs="+", metavar="FILE")
    options = made.parse_args()
    tools = splitters()
    rows, cells = [], []
    for path in options.files:
        text, treebank = read_treebank(path), path.name.partition("-")[0]
        line = [treebank]
        for name, split in tools.items():
            try:
                score, speed = measure(name, split, text, path.name[:2])
            except (ValueError, KeyError):  # a language that the package lacks
                line.append("")
                continue
            holds = name != "regex" or score >= FLOORS.get(treebank, 0)
            target = FLOORS.get(treebank) if name == "regex" else None
            facts = {"treebank": treebank, "splitter": name, "f1": score, "mb_per_s": speed}
            rows.append(figure(f"{treebank}: {name}", "F1", score, None, "", target, holds=holds, **facts))
            line.append(f"{score:.3f}{'' if holds else ' !'} ({speed:.1f})")
        cells.append(line)
    print_table(("treebank: F1 (MB/s)", *tools), cells)
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
