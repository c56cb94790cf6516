"""Speed of encoding on one core: the core of our encode stage against the plain loop over the same library.

    python benchmarks/encode.py [--megabytes 8] [--size 8000] [--json FILE]

Texts are the modules of Python's standard library. Ours gives ids, a character offset for each token, and sentence
starts; the peer, called text by text, gives ids alone. Both load one trained model afresh for each run, so that
nothing is known from the run before. Figures are MB of text per CPU second, the best of three runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import sentencepiece
import tokenizers
from rich.console import Console
from rich.table import Table

from pipeline import registry
from pipeline.documents.document import Document
from pipeline.encode.tokenise import token_documents
from pipeline.registry import choose
from pipeline.tokenizers import load_tokenizer, save_tokenizer

_RUNS = 3
_BATCH = 256
_TARGETS = {"byte_bpe": 2.0, "unigram": 0.5}
"""Our unigram is the library's own batch call; splitting sentences may cost as much again, not more."""

Loop = Callable[[list[str]], Any]


def documents(megabytes: float) -> list[Document]:
    """Return modules of the standard library, in order of name."""
    found, size = [], 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("[!_s]*/**/*.py")):
        text = path.read_text(encoding="utf-8", errors="replace") if "site-packages" not in path.parts else ""
        if text and size < megabytes * 1e6:
            found.append(Document(uid=bytes(16), text=text, source=path.name, language="en"))
            size += len(text.encode())
    return found


def peer(name: str, folder: Path) -> Loop:
    """Encode by the library's own loop: one text, one call."""
    if name == "byte_bpe":
        bpe = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        return lambda texts: [np.array(bpe.encode(text, add_special_tokens=False).ids) for text in texts]
    unigram = sentencepiece.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    return lambda texts: [np.array(unigram.encode(text)) for text in texts]


def seconds(prepare: Callable[[], Callable[[], Any]]) -> float:
    """Return CPU seconds of the best run; preparing is not counted."""
    best = float("inf")
    for _ in range(_RUNS):
        work = prepare()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def encode_all(found: list[Document], folder: Path) -> Callable[[], Any]:
    """Encode by our tokenizer, in batches as the stage makes them."""
    tokenizer, splitter = load_tokenizer(folder), choose("pipeline.sentences", "regex").build()
    batches = [found[start : start + _BATCH] for start in range(0, len(found), _BATCH)]
    return lambda: [list(token_documents(batch, tokenizer, splitter)) for batch in batches]


def measure(name: str, found: list[Document], size: int) -> dict[str, Any]:
    """Train, then measure both sides on the same texts; return one row."""
    texts = [document.text for document in found]
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        kind = registry.find("pipeline.tokenizers", name)
        save_tokenizer(kind.train(texts[::4], kind.Options(size=size), folder), name, folder)
        ours = megabytes / seconds(lambda: encode_all(found, folder))
        theirs = megabytes / seconds(lambda: (lambda loop: lambda: loop(texts))(peer(name, folder)))
    library = "tokenizers" if name == "byte_bpe" else "sentencepiece"
    ratio = ours / theirs
    row = {"case": name, "ours": round(ours, 2), "peer": round(theirs, 2), "peer_name": f"{library}, text by text"}
    return {**row, "ratio": round(ratio, 2), "unit": "MB/s", "target": _TARGETS[name], "holds": ratio >= _TARGETS[name]}


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--megabytes", type=float, default=8)
    parser.add_argument("--size", type=int, default=8000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = documents(options.megabytes)
    rows = [measure(name, found, options.size) for name in ("byte_bpe", "unigram")]
    table = Table(*rows[0], title=f"encode, {options.megabytes:g} MB, {options.size} pieces")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
