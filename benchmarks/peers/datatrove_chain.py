"""Pages to rows of tokens by datatrove's own blocks: the peer of `benchmarks/chain.py`.

    python -m benchmarks.peers.datatrove_chain PAGES TOKENIZER OUTPUT EXTRACTOR

PAGES is a JSONL file with a page in `text`: the library's reader of WARCs needs a system library.
The last line is JSON: documents with a text, documents that MinHash kept, and tokens.
"""

import json
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from datatrove.executor import LocalPipelineExecutor
from datatrove.pipeline.dedup import (
    MinhashDedupBuckets,
    MinhashDedupCluster,
    MinhashDedupFilter,
    MinhashDedupSignature,
)
from datatrove.pipeline.dedup.minhash import MinhashConfig
from datatrove.pipeline.extractors import Trafilatura
from datatrove.pipeline.extractors.base import BaseExtractor
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.tokens import DocumentTokenizer, DocumentTokenizerContextShuffler
from datatrove.pipeline.writers import JsonlWriter
from datatrove.utils.word_tokenizers import WordTokenizer

TIMEOUT_S: Final = 30.0
WINDOW: Final = 512
"""tokens in a row"""


class Resiliparse(BaseExtractor):
    """The main text of a page, by the library that Clozeline uses."""

    name = "resiliparse"

    def __init__(self) -> None:
        super().__init__(TIMEOUT_S)

    def extract(self, text: str) -> str:
        """Return the main text."""
        from resiliparse.extract.html2text import extract_plain_text

        found: str = extract_plain_text(text, main_content=True, alt_texts=False, links=False)
        return found


class SpacedWords(WordTokenizer):
    """Words between blanks: cheaper than any word tokenizer of datatrove."""

    def word_tokenize(self, text: str) -> list[str]:
        """Return the words."""
        return text.split()

    def sent_tokenize(self, text: str) -> list[str]:
        """Return the text, which no block of this chain splits."""
        return [text]

    def span_tokenize(self, text: str) -> list[tuple[int, int]]:
        """Return the span of the text."""
        return [(0, len(text))]


EXTRACTORS: Final[dict[str, Callable[[], BaseExtractor]]] = {
    # the options of Clozeline's extractor; with its own, datatrove keeps half of the text
    "trafilatura": lambda: Trafilatura(
        favour_precision=False, timeout=TIMEOUT_S, deduplicate=False, fast=True
    ),
    "resiliparse": Resiliparse,
}


def run_chain(pages: Path, tokenizer: Path, output: Path, extractor: str) -> dict[str, int]:
    """Run the blocks one after another in one process; return counts."""
    words = "eng" if find_spec("spacy") else SpacedWords()
    config = MinhashConfig(n_grams=5, num_buckets=14, hashes_per_bucket=8)

    def folder(name: str) -> str:
        return str(output / name)

    _run(
        JsonlReader(str(pages.parent), glob_pattern=pages.name),
        EXTRACTORS[extractor](),
        JsonlWriter(folder("texts"), "${rank}.jsonl.gz"),
    )
    _run(
        JsonlReader(folder("texts")),
        MinhashDedupSignature(folder("signatures"), config, language=words),
    )
    buckets = MinhashDedupBuckets(folder("signatures"), folder("buckets"), config=config)
    _run(buckets, tasks=config.num_buckets)
    _run(MinhashDedupCluster(folder("buckets"), folder("removed"), config))
    _run(
        JsonlReader(folder("texts")),
        MinhashDedupFilter(folder("removed")),
        DocumentTokenizer(folder("tokens"), str(tokenizer), shuffle_documents=True, seed=1),
    )
    rows = DocumentTokenizerContextShuffler(folder("tokens"), folder("rows"), WINDOW, seed=1)
    _run(rows)
    ends = [np.fromfile(path, np.uint64) for path in (output / "tokens").glob("*.index")]
    texts = sum(1 for _ in JsonlReader(folder("texts"))())
    return {
        "texts": texts,
        "kept": sum(map(len, ends)),
        "tokens": sum(int(each[-1]) for each in ends if len(each)),
    }


def _run(*blocks: Any, tasks: int = 1) -> None:
    with tempfile.TemporaryDirectory() as logs:
        LocalPipelineExecutor([*blocks], tasks=tasks, workers=1, logging_dir=logs).run()


def main() -> int:
    """Run the chain and print its counts."""
    pages, tokenizer, output, extractor = sys.argv[1:]
    counts = run_chain(Path(pages), Path(tokenizer), Path(output), extractor)
    print(json.dumps(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
