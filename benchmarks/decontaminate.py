"""Speed of decontamination on one core, and what it finds: documents against indexes of evaluation items.

    python -m benchmarks.decontaminate [--megabytes 16] [--items 20000] [--json FILE]

Documents are sentences of Python's help topics in random order. Items are passages of 60 words that no document holds,
and for the second index also sentences of 5 to 12 words, such as those of BLiMP. Figures are MB of text per CPU second,
the best of three runs: of the lookup, which reads a part and looks up all runs of words, and of the lookup with the
last pass, which writes the part again without the documents that hold an item.

Planted items are 13 to 60 words of an item in other case, marks and spaces, at the start, in the middle or at the end
of a document: recall is the share that is found, precision the share of found documents with a planted item.
"""

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import best_seconds, figure, parser, print_figures, write_json

from benchmarks.dedup import documents
from clozeline.pipeline.decontaminate.config import EvaluationSet
from clozeline.pipeline.decontaminate.evaluation_items import evaluation_files
from clozeline.pipeline.decontaminate.passes import Apply, DecideMatches, FindMatches, WriteIndex
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import read_rejects, write_documents
from clozeline.pipeline.ingest.formats.limits import Limits

TARGET = 40.0
"""MB of text a second that the lookup of runs of 13 words must reach."""
_PLANTED = 500


def _items(number: int, words: list[str], lengths: range, seed: int) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(words, k=draw.choice(lengths))) for _ in range(number)]


def _passes(root: Path, items: list[str]) -> dict[str, Callable[[], object]]:
    """Return the passes of the stage over one part, by name."""
    folder, path = root / "decontaminate", root / "items.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in items), encoding="utf-8")
    files = tuple(evaluation_files([EvaluationSet(path=str(path))]))
    passes = (WriteIndex(files, 13, Limits()), FindMatches(1, root / "clean", folder), DecideMatches(files, 1, 10),
              Apply(1, root / "clean", folder, files, "drop", 1))  # fmt: skip
    return {work.name: lambda work=work: work.run(0, Output(folder)) for work in passes}


def _planted(made: list[Document], items: list[str]) -> tuple[list[Document], set[bytes]]:
    """Return documents with runs of items in some, and the uids of those."""
    draw, changed, uids = random.Random(3), list(made), set[bytes]()
    for row in draw.sample(range(len(made)), min(_PLANTED, len(made) // 2)):
        words, item = made[row].text.split(), draw.choice(items).split()
        size = draw.randrange(13, len(item) + 1)
        start = draw.randrange(len(item) - size + 1)
        disguised = [draw.choice((str.upper, str.title, "“{}”".format))(word) for word in item[start : start + size]]
        at = draw.choice((0, len(words) // 2, len(words)))
        text = "\n".join((" ".join(words[:at]), " ".join(disguised), " ".join(words[at:]))).strip()
        changed[row] = made[row].replace(text=text, n_chars=len(text))
        uids.add(made[row].uid)
    return changed, uids


def main() -> None:
    """Measure speed, recall and precision."""
    options = parser(
        __doc__, megabytes=(16.0, "text to look up, in MB"), items=(20_000, "passages, and sentences")
    ).parse_args()
    made = documents(options.megabytes)
    words = sorted({word for document in made for word in document.text.split() if any(map(str.isalnum, word))})
    passages = _items(options.items, words, range(60, 61), 1)
    sentences = _items(options.items, words, range(5, 13), 2)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        part = root / "clean" / "documents" / "000000.arrow"
        part.parent.mkdir(parents=True)
        write_documents(part, made)
        size = sum(len(document.text.encode()) for document in made) / 1e6
        for name, items, target in (("13 words", passages, TARGET), ("13 words and short", passages + sentences, None)):
            passes = _passes(root, items)
            seconds = {key: best_seconds(work, 3 if key in ("matches", "main") else 1) for key, work in passes.items()}
            speed = size / seconds["matches"]
            rows.append(figure(f"lookup, {name}", "MB/s", speed, None, "", target, holds=speed >= (target or 0)))
            speed = size / (seconds["matches"] + seconds["main"])
            rows.append(figure(f"lookup and rewriting, {name}", "MB/s", speed, None, "", None, holds=True))
        changed, expected = _planted(made, passages)
        write_documents(part, changed)
        for work in _passes(root, passages).values():
            work()
        found = {row.uid for row in read_rejects(root / "decontaminate" / "rejects" / "000000.arrow")}
        right = len(found & expected)
        for name, share in (("recall", right / len(expected)), ("precision", right / len(found))):
            case = f"{name} of {len(expected)} planted documents"
            rows.append(figure(case, "share", share, None, "", 1.0, holds=share == 1.0))
    print_figures(rows, ("case", "ours", "peer", "ratio", "target", "holds"))
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
