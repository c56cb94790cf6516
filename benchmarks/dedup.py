"""Speed of dedup on one core, ours and datatrove's in the same run: exact hashes and MinHash signatures of a part.

    python benchmarks/dedup.py [--megabytes 4] [--peer PYTHON] [--json FILE]

Each side turns the same documents into its files of sorted hashes: ours reads an Arrow part, datatrove is given the
documents in memory and splits words with spaCy, in an environment of its own: benchmarks/peers/datatrove_steps.py names
its packages. Figures are MB of text per CPU second, the best of three runs.
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

from benchmarks.peers.datatrove_steps import ask
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


def measure(megabytes: float, peer: str | None) -> list[dict[str, Any]]:
    """Return one row a case."""
    rows = documents(megabytes)
    size = sum(len(row.text.encode()) for row in rows) / 1e6
    targets = {"exact hashes": 200.0, "MinHash signatures 14 x 8": 12.0}
    results = []
    with tempfile.TemporaryDirectory() as folder:
        part = Path(folder) / "documents" / "000000.arrow"
        part.parent.mkdir()
        write_documents(part, rows)
        theirs = ask(peer, "dedup_seconds", [row.text for row in rows]) if peer else {}
        for (case, work), key in zip(ours(Path(folder)).items(), ("exact", "near"), strict=True):
            mine, other = speed(work, size), size / theirs[key] if peer else None
            results.append(
                {"case": case, "ours": mine, "peer": other, "peer_name": "datatrove",
                 "ratio": mine / other if other else None, "unit": "MB/s",
                 "target": targets[case], "holds": mine >= targets[case]}
            )  # fmt: skip
    return results


def main() -> int:
    """Measure, print a table, and write the rows where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=4.0, help="text to hash, in MB")
    parser.add_argument("--peer", metavar="PYTHON", help="interpreter with datatrove and spaCy")
    parser.add_argument("--json", type=Path, help="file to write the rows to")
    arguments = parser.parse_args()
    rows = measure(arguments.megabytes, arguments.peer)
    table = Table("case", "ours MB/s", "datatrove MB/s", "ratio", "target MB/s", "holds")
    for row in rows:
        figures = [f"{row[name]:.1f}" if row[name] else "–" for name in ("ours", "peer", "ratio", "target")]
        table.add_row(row["case"], *figures, "yes" if row["holds"] else "NO")
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
