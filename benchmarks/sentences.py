"""F1 of sentence starts beside other splitters, in files whose sentences were marked by people.

    python -m benchmarks.sentences FOLDER [--peers PYTHON] [--json FILE]

FOLDER holds treebanks of Universal Dependencies, such as `de_pud-ud-test.conllu`, and lists of
sentences, such as `de.txt` with a sentence on each line, compressed or not. A name starts with the
code of its language, as ISO 639-1 has it. A text is a paragraph (`# newdoc`, `# newpar`), or ten
sentences where a treebank marks no text or each sentence as one, and in lists. A blank stands
between two sentences, or nothing after `SpaceAfter=No`, and in lists in Chinese and Japanese. The
first sentence of a text counts for nobody. Lists of single sentences have few quotations and
abbreviations: their figures say which marks a splitter knows.

PYTHON has benchmarks/peers/requirements.txt: the rule-based sentencizer of spaCy, pysbd, and punkt
with the models of NLTK. A splitter without rules for a language has no figure there.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.harness import parser, print_table, run_script, write_json

from clozeline.pipeline.ingest.formats.limits import InputLimits
from clozeline.pipeline.registries import SENTENCES
from clozeline.pipeline.tables import read_list, read_sentences

SMALLEST = None
OURS: Final = "ours"
PEERS: Final = Path(__file__).parent / "peers" / "splitters.py"
_TEXT_SENTENCES: Final = 10
_NO_BLANKS: Final = ("ja", "zh")
"""languages that write no blank between two sentences"""


@dataclass
class MarkedText:
    """A text, and the offsets at which its sentences start, the first 0."""

    text: str = ""
    starts: list[int] = field(default_factory=list)

    def add(self, sentence: str, blank: str) -> None:
        """Append a sentence, and what stands between it and the next one."""
        self.starts.append(len(self.text))
        self.text += sentence + blank


def read_treebank(path: Path) -> Iterator[MarkedText]:
    """Yield the paragraphs of a file in CoNLL-U, or ten sentences each."""
    found: list[tuple[bool, str, str]] = []

    for sentence in read_sentences(path, InputLimits()):
        comments = [line[1:].strip() for line in sentence.lines if line.startswith("#")]
        texts = [line.partition("=")[2].strip() for line in comments if line.startswith("text =")]
        # the last token has its white space; a range of words has it in front of them
        last = [line.split("\t") for line in sentence.lines if not line.startswith("#")][-1]
        ranges = [line.split("\t") for line in sentence.lines if "-" in line.split("\t")[0]]
        if ranges and ranges[-1][0].partition("-")[2] == last[0]:
            last = ranges[-1]
        blank = "" if "SpaceAfter=No" in last[-1].split("|") else " "
        opens = any(line.startswith(("newdoc", "newpar")) for line in comments)
        found.append((opens, texts[0], blank))

    # some treebanks call each sentence a document
    marked = len({opens for opens, _, _ in found}) == 2
    yield from _join(
        (opens if marked else number % _TEXT_SENTENCES == 0, sentence, blank)
        for number, (opens, sentence, blank) in enumerate(found)
    )


def read_sentence_list(path: Path, language: str) -> Iterator[MarkedText]:
    """Yield ten sentences each of a file with a sentence on each line."""
    blank = "" if language in _NO_BLANKS else " "
    yield from _join(
        (number % _TEXT_SENTENCES == 0, sentence.strip(), blank)
        for number, sentence in enumerate(read_list(path))
    )


def _join(sentences: Iterator[tuple[bool, str, str]]) -> Iterator[MarkedText]:
    """Join sentences to texts; each says whether a text starts with it, and what follows it."""
    made = MarkedText()
    for opens, sentence, blank in sentences:
        if opens and made.starts:
            yield made
            made = MarkedText()
        made.add(sentence, blank)
    if made.starts:
        yield made


def read_folder(folder: Path) -> dict[str, tuple[str, list[MarkedText]]]:
    """Return the language and the texts of each file, by name."""
    read = {}
    for path in sorted(folder.iterdir()):
        name, _, endings = path.name.partition(".")
        language = name.partition("_")[0]
        if endings.startswith("conllu"):
            read[name] = language, list(read_treebank(path))
        elif endings.startswith("txt"):
            read[name] = language, list(read_sentence_list(path, language))
    return read


def score(texts: Sequence[MarkedText], found: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Return precision and recall of the starts after the first of each text."""
    gold = {(row, start) for row, text in enumerate(texts) for start in text.starts[1:]}
    given = {(row, start) for row, starts in enumerate(found) for start in starts[1:]}
    right = len(gold & given)
    return right / max(len(given), 1), right / max(len(gold), 1)


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def main() -> int:
    """Read the folder, split its texts, print a table, and return the exit code."""
    options = parser(__doc__, peers=(str, "an interpreter that has the peers"))
    options.add_argument("folder", type=Path, help="treebanks and lists of sentences")
    arguments = options.parse_args()
    files = read_folder(arguments.folder)
    if not files:
        print(f"{arguments.folder}: no file ends with .conllu or .txt", file=sys.stderr)
        return 1

    splitter = SENTENCES.resolve("regex").build()
    found = {
        name: {OURS: [splitter.starts(text.text, language) for text in texts]}
        for name, (language, texts) in files.items()
    }
    peers: list[str] = []
    if arguments.peers:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as file:
            plain = {
                name: (language, [text.text for text in texts])
                for name, (language, texts) in files.items()
            }
            json.dump(plain, file)
            file.flush()
            theirs = run_script(str(PEERS), file.name, python=arguments.peers)
        for name, starts in theirs["starts"].items():
            found[name] |= starts
        peers = theirs["names"]

    figures = {
        name: {
            "sentences": sum(len(text.starts) - 1 for text in files[name][1]),
            "scores": {tool: score(files[name][1], starts) for tool, starts in tools.items()},
        }
        for name, tools in found.items()
    }

    def cell(scores: dict[str, tuple[float, float]], tool: str) -> str:
        return f"{100 * f1(*scores[tool]):.1f}" if tool in scores else "–"

    print_table(
        ("file", "starts", OURS, *peers, "precision / recall of ours"),
        (
            (
                name,
                f"{row['sentences']:,}",
                *(cell(row["scores"], tool) for tool in (OURS, *peers)),
                " / ".join(f"{100 * share:.1f}" for share in row["scores"][OURS]),
            )
            for name, row in figures.items()
        ),
    )
    write_json(arguments.json, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
