"""Speed of every tokenizer on one core, against the batch call of the library that owns its algorithm.

    python benchmarks/encode.py [--megabytes 4] [--size 8000] [--rounds 5] [--only NAME ...] [--json FILE]

Texts are the modules of Python's standard library, in batches of 256 as the stage makes them. Both sides give the ids
of a batch as arrays, from one model, loaded again for each round so that nothing is known from the round before; rounds
alternate. Figures are MB of text per CPU second in the median round, and the lowest and highest ratio of a round.
`stage` is what our stage does with a batch: ids, character offsets and sentence starts.

The trained kinds learn from the same texts. Published are a unigram `.model` with the trainer's own settings, and the
`tokenizer.json` files that kinds of ours are exported to. `sentencepiece` owns each `.model`, and `tokenizers` the
rest: it takes the place where a kind has no other library.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

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
from pipeline.published.exporting import export_tokenizer
from pipeline.published.importing import import_tokenizer
from pipeline.registry import choose
from pipeline.tokenizers import load_tokenizer, save_tokenizer, trainable

_BATCH: Final = 256
_TARGET: Final = 0.9
_TARGETS: Final = {"byte_bpe": 1.0}
_EXPORTED: Final = ("byte_bpe", "wordpiece", "unigram")
_SENTENCEPIECE: Final = "spiece.model"

Texts = list[str]
Encode = Callable[[Texts], Any]


def documents(megabytes: float) -> list[Document]:
    """Return modules of the standard library, in order of name."""
    found, size = [], 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("[!_s]*/**/*.py")):
        text = path.read_text(encoding="utf-8", errors="replace") if "site-packages" not in path.parts else ""
        if text and size < megabytes * 1e6:
            found.append(Document(uid=bytes(16), text=text, source=path.name, language="en"))
            size += len(text.encode())
    return found


def train(name: str, texts: Texts, size: int, folder: Path) -> Path:
    """Write a tokenizer of a kind that is trained here."""
    kind = registry.find("pipeline.tokenizers", name)
    save_tokenizer(kind.train(texts[::4], kind.Options(size=size), folder), name, folder)
    return folder


def published_model(texts: Texts, size: int, folder: Path) -> Path:
    """Import a `.model` as T5 and ALBERT have it: unigram, normalised, a space in front."""
    source = folder / "source.model"
    folder.mkdir()
    with source.open("wb") as file:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter([line for text in texts[::4] for line in text.splitlines() if line]),
            model_writer=file, vocab_size=size, num_threads=1, minloglevel=2, hard_vocab_limit=False,
        )  # fmt: skip
    import_tokenizer(source, folder / "imported")
    return folder / "imported"


def published_json(name: str, texts: Texts, size: int, out: Path) -> Path:
    """Import the `tokenizer.json` that a tokenizer of ours is exported to."""
    export_tokenizer(train(name, texts, size, out / "own"), out / "exported", texts=())
    import_tokenizer(out / "exported" / "tokenizer.json", out / "imported")
    return out / "imported"


def ours(folder: Path) -> Encode:
    """Encode by our tokenizer: ids alone."""
    tokenizer = load_tokenizer(folder)
    return lambda texts: [encoding.ids for encoding in tokenizer.encode(texts)]


def owner(folder: Path) -> Encode:
    """Encode by the owner's batch call, in one thread."""
    if (folder / _SENTENCEPIECE).exists():
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / _SENTENCEPIECE))
        return lambda texts: model.encode(texts, return_type="numpy", num_threads=1)
    library = tokenizers.Tokenizer.from_str(load_tokenizer(folder).converted().to_str())
    return lambda texts: [np.array(row.ids) for row in library.encode_batch_fast(texts, add_special_tokens=False)]


def stage(folder: Path) -> Callable[[Sequence[Document]], Any]:
    """Encode as the stage does: ids, offsets and sentence starts."""
    tokenizer, splitter = load_tokenizer(folder), choose("pipeline.sentences", "regex").build()
    return lambda found: list(token_documents(found, tokenizer, splitter))


def seconds(encode: Callable[[Any], Any], batches: Sequence[Any]) -> float:
    """Return the CPU seconds of all batches."""
    start = time.process_time()
    for batch in batches:
        encode(batch)
    return time.process_time() - start


def measure(name: str, folder: Path, found: list[Document], rounds: int) -> dict[str, Any]:
    """Return one row: all sides take turns."""
    batches = [found[start : start + _BATCH] for start in range(0, len(found), _BATCH)]
    texts = [[document.text for document in batch] for batch in batches]
    megabytes = sum(len(text.encode()) for batch in texts for text in batch) / 1e6
    taken = [(seconds(ours(folder), texts), seconds(owner(folder), texts)) for _ in range(rounds)]
    ratios = [their / own for own, their in taken]
    own, their = (statistics.median(side) for side in zip(*taken, strict=True))
    target = _TARGETS.get(name, _TARGET)
    return {
        "case": name,
        "ours": round(megabytes / own, 2),
        "peer": round(megabytes / their, 2),
        "peer_name": "sentencepiece" if (folder / _SENTENCEPIECE).exists() else "tokenizers",
        "ratio": round(statistics.median(ratios), 2),
        "range": f"{min(ratios):.2f}-{max(ratios):.2f}",
        "stage": round(megabytes / seconds(stage(folder), batches), 2),
        "unit": "MB/s",
        "target": target,
        "holds": statistics.median(ratios) >= target,
    }


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--size", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = documents(options.megabytes)
    texts = [document.text for document in found]
    with tempfile.TemporaryDirectory() as temporary:
        base = Path(temporary)
        made: dict[str, Callable[[], Path]] = {
            name: lambda name=name: train(name, texts, options.size, base / name) for name in trainable()
        }
        made["sentencepiece_model"] = lambda: published_model(texts, options.size, base / "sentencepiece_model")
        for name in _EXPORTED:
            made[f"tokenizer_json: {name}"] = lambda name=name: published_json(
                name, texts, options.size, base / f"json-{name}"
            )
        wanted = {name: make for name, make in made.items() if not options.only or name in options.only}
        rows = [measure(name, make(), found, options.rounds) for name, make in wanted.items()]
    load = os.getloadavg()[0]
    table = Table(*rows[0], title=f"encode, {options.megabytes:g} MB, {options.size} pieces, load {load:.0f}")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console(width=140).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
