"""Speed of dedup on one core, ours and datatrove's in the same run: exact hashes and MinHash signatures of a part.

    python -m benchmarks.dedup [--megabytes 4] [--peer PYTHON] [--json FILE]

Both turn the same documents into files of sorted hashes: ours reads an Arrow part, datatrove gets the documents in
memory and splits words with spaCy, in an environment of its own: benchmarks/peers/datatrove_steps.py names its
packages. Figures are MB of text per CPU second, the best of three runs.
"""

import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics

from benchmarks.harness import figure, parser, print_figures, write_json

from benchmarks.peers.datatrove_steps import PEER, ask, best_seconds
from clozeline.pipeline.dedup.exact_passes import ExactHashes
from clozeline.pipeline.dedup.near_passes import NearSignatures, SignatureParameters
from clozeline.pipeline.dedup.parts import Parts
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.documents.document import Document, document_uid
from clozeline.pipeline.ingest.documents.files import write_documents

DOCUMENT_CHARACTERS = 2700
TARGETS = {"exact hashes": 200.0, "MinHash signatures 14 x 8": 12.0}
SPEEDUP = 26.0
"""Times datatrove's speed that the signatures must reach, where it is measured."""


def documents(megabytes: float) -> list[Document]:
    """Return English technical text: sentences of Python's help topics in random order, cut into documents."""
    draw = random.Random(1)
    sentences = [sentence for text in topics.values() for sentence in text.split(". ")]
    made: list[Document] = []
    size = 0
    while size < megabytes * 1e6:
        text = ""
        while len(text) < DOCUMENT_CHARACTERS:
            text += draw.choice(sentences) + ". "
        uid = document_uid("benchmark", "topics", "text", len(made))
        made.append(Document(uid=uid, text=text, source="topics", n_chars=len(text)))
        size += len(text.encode())
    return made


def passes(source: Path) -> list[Callable[[str], None]]:
    """Return the passes of the stage over one part, in the order of the cases."""

    def exact(folder: str) -> None:
        ExactHashes(1, Parts(source, Path(folder), 1, 1), "text", "longest").run(0, Output(Path(folder)))

    def near(folder: str) -> None:
        parts, parameters = Parts(source, Path(folder), 1, 1), SignatureParameters(ngram=5, bands=14, rows=8, seed=1)
        NearSignatures(1, parts, parameters, "longest", after_exact=False).run(0, Output(Path(folder)))

    return [exact, near]


def main() -> None:
    options = parser(__doc__, megabytes=(4.0, "text to hash, in MB"), peer=PEER).parse_args()
    made = documents(options.megabytes)
    size = sum(len(document.text.encode()) for document in made) / 1e6
    theirs = ask(options.peer, "dedup_seconds", [document.text for document in made]) if options.peer else {}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "documents" / "000000.arrow"
        part.parent.mkdir()
        write_documents(part, made)
        for (case, target), key, work in zip(TARGETS.items(), ("exact", "near"), passes(Path(folder)), strict=True):
            ours, peer = size / best_seconds(work), size / theirs[key] if theirs else None
            rows.append(figure(case, "MB/s", ours, peer, "datatrove", target, holds=ours >= target))
            if key == "near" and theirs:
                factor = figure("MinHash, times datatrove", "ratio", ours, peer, "datatrove", SPEEDUP,
                                holds=ours >= SPEEDUP * size / theirs["near"])  # fmt: skip
                rows.append(factor)
            if key == "near" and "rensa" in theirs:  # words split at white space, nothing written
                rows.append(figure("MinHash, rensa", "MB/s", ours, size / theirs["rensa"], "rensa", None, holds=True))
    print_figures(rows, ("case", "ours MB/s", "datatrove MB/s", "ratio", "target MB/s", "holds"))
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
