"""Speed of dedup on one core, ours and datatrove's in the same run: exact hashes and MinHash signatures of a part.

    python benchmarks/dedup.py [--megabytes 4] [--json FILE]

Each side turns the same documents into its files of sorted hashes: ours reads an Arrow part, datatrove is given the
documents in memory and splits words at blanks, which costs less than any of its tokenizers. Figures are MB of text
per CPU second, the best of three runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

os.environ.update(LOGURU_LEVEL="ERROR", TQDM_DISABLE="1", OMP_NUM_THREADS="1")
sys.path.insert(0, str(Path(__file__).parent.parent))

from rich.console import Console
from rich.table import Table

from pipeline.dedup.exact_passes import ExactHashes
from pipeline.dedup.near_passes import NearSignatures, SignatureFacts
from pipeline.dedup.parts import Parts
from pipeline.documents.document import Document, document_uid
from pipeline.documents.files import write_documents
from pipeline.execution.unit_record import Output

_DOCUMENT_CHARACTERS = 2700
_RUNS = 3


def documents(megabytes: float) -> list[Document]:
    """Return English technical text: sentences of Python's help topics in random order, cut into documents."""
    chosen = random.Random(1)
    sentences = [sentence for text in topics.values() for sentence in text.split(". ")]
    found: list[Document] = []
    size = 0
    while size < megabytes * 1e6:
        text = ""
        while len(text) < _DOCUMENT_CHARACTERS:
            text += chosen.choice(sentences) + ". "
        uid = document_uid("benchmark", "topics", "text", len(found))
        found.append(Document(uid=uid, text=text, source="topics", n_chars=len(text)))
        size += len(text.encode())
    return found


def speed(work: Callable[[Path], None], megabytes: float) -> float:
    """Return MB per CPU second, the best of some runs in fresh folders."""
    best = float("inf")
    for _ in range(_RUNS):
        with tempfile.TemporaryDirectory() as folder:
            start = time.process_time()
            work(Path(folder))
            best = min(best, time.process_time() - start)
    return megabytes / best


def ours(source: Path) -> dict[str, Callable[[Path], None]]:
    """Return the passes of the stage over one part, by case."""

    def exact(folder: Path) -> None:
        ExactHashes(1, Parts(source, folder, 1, 1), "text", "longest").run(0, Output(folder))

    def near(folder: Path) -> None:
        facts = SignatureFacts(ngram=5, bands=14, rows=8, seed=1)
        NearSignatures(1, Parts(source, folder, 1, 1), facts, "longest", after_exact=False).run(0, Output(folder))

    return {"exact hashes": exact, "MinHash signatures 14 x 8": near}


class _Blanks:
    """A word tokenizer for datatrove that costs nothing: its own ones need packages, and more time."""

    def word_tokenize(self, text: str) -> list[str]:
        """Split at blanks."""
        return text.split()


def peers(rows: list[Document]) -> dict[str, Callable[[Path], None]]:
    """Return datatrove's steps on the same documents, by case."""
    from datatrove.data import Document as TheirDocument
    from datatrove.pipeline.dedup import MinhashConfig, MinhashDedupSignature
    from datatrove.pipeline.dedup.exact_dedup import ExactDedupConfig, ExactDedupSignature
    from datatrove.utils.hashing import HashConfig

    theirs = [TheirDocument(text=row.text, id=row.uid.hex()) for row in rows]
    hashing = HashConfig(precision=64, hash_fc="xxhash")

    def exact(folder: Path) -> None:
        config = ExactDedupConfig(content_getter=lambda document: document.text, hash_config=hashing)
        ExactDedupSignature(str(folder), config=config).run(iter(theirs))

    def near(folder: Path) -> None:
        config = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8, hash_config=hashing)
        step = MinhashDedupSignature(str(folder), config=config, language="aii")
        step.word_tokenizer = _Blanks()
        step.run(iter(theirs))

    return {"exact hashes": exact, "MinHash signatures 14 x 8": near}


def measure(megabytes: float) -> list[dict[str, Any]]:
    """Return one row a case."""
    rows = documents(megabytes)
    size = sum(len(row.text.encode()) for row in rows) / 1e6
    targets = {"exact hashes": 200.0, "MinHash signatures 14 x 8": 12.0}
    results = []
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "documents" / "000000.arrow"
        part.parent.mkdir()
        write_documents(part, rows)
        theirs = peers(rows)
        for case, work in ours(Path(folder)).items():
            mine, other = speed(work, size), speed(theirs[case], size)
            results.append(
                {"case": case, "ours": mine, "peer": other, "peer_name": "datatrove", "ratio": mine / other,
                 "unit": "MB/s", "target": targets[case], "holds": mine >= targets[case]}
            )  # fmt: skip
    return results


def main() -> int:
    """Measure, print a table, and write the rows where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=4.0, help="text to hash, in MB")
    parser.add_argument("--json", type=Path, help="file to write the rows to")
    arguments = parser.parse_args()
    rows = measure(arguments.megabytes)
    table = Table("case", "ours MB/s", "datatrove MB/s", "ratio", "target MB/s", "holds")
    for row in rows:
        figures = [f"{row[name]:.1f}" for name in ("ours", "peer", "ratio", "target")]
        table.add_row(row["case"], *figures, "yes" if row["holds"] else "NO")
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
