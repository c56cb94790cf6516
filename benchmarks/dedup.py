"""Speed and recall of dedup: exact hashes and MinHash signatures of a part.

    python -m benchmarks.dedup [--megabytes 4] [--pairs 1000] [--json FILE]

A pass reads an Arrow part and writes files of sorted hashes. The peer of the signatures is our
numpy form, without the compiled module. Figures are MB of text per CPU second, the best of three
runs.

Recall is the share of pairs with an equal band key, by the Jaccard similarity of their 5-grams,
counted with sets. Theory says 1 - (1 - s^8)^14 for 14 bands of 8 rows; the exit code is 1 where
ours is more than three standard errors away. Pairs are texts of 250 words, of which some are
replaced in the second.
"""

import random
from collections.abc import Callable
from itertools import pairwise, product
from operator import eq
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

from benchmarks.harness import (
    best_seconds,
    figure,
    parser,
    print_figures,
    print_rows,
    temporary_folder,
    write_json,
)

from clozeline.native.library import numpy_only
from clozeline.pipeline.dedup.config import NearConfig
from clozeline.pipeline.dedup.exact import ExactHashes
from clozeline.pipeline.dedup.near import NearSignatures, Sketch
from clozeline.pipeline.dedup.parts import DedupCounts, Parts
from clozeline.pipeline.execution.stages import Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.ingest.documents.document import Document, document_uid
from clozeline.pipeline.ingest.documents.files import write_documents

SMALLEST = "--megabytes .1 --pairs 50"
DOCUMENT_CHARACTERS = 2700
TARGETS = {"exact hashes": 200.0, "MinHash signatures 14 x 8": 3.0}
"""Least MB/s of exact hashes; for signatures, how many times the numpy form in the same run."""
RUNS = 3

_EDGES = (0.475, 0.55, 0.625, 0.675, 0.725, 0.775, 0.825, 0.875, 0.925, 0.975)
_PAIR_WORDS = 250
_VOCABULARY = [
    "".join(letters) for letters in product("bdfgklmnprst", "aeiou", "bdfgklmnprst", "aeiou")
]


def documents(megabytes: float) -> list[Document]:
    """Return English technical text, cut into documents.

    It is sentences of Python's help topics in random order.
    """
    draw = random.Random(1)
    sentences = [sentence for text in topics.values() for sentence in text.split(". ")]
    made: list[Document] = []
    size = 0
    while size < megabytes * 1e6:
        text = ""
        while len(text) < DOCUMENT_CHARACTERS:
            text += draw.choice(sentences) + ". "
        uid = document_uid("benchmark", "topics", "text", len(made))
        made.append(Document(uid=uid, text="", source="topics").replace_text(text))
        size += len(text.encode())

    return made


def passes(source: Path) -> list[Callable[[Path], None]]:
    """Return the passes of the stage over one part, in the order of the cases."""

    def run(unit: Unit[DedupCounts], folder: Path) -> None:
        inputs = UnitInputs(lambda stage: source if stage == "documents" else folder)
        unit.run(inputs, Output(folder))

    parts = Parts(("000000",), 1)
    near_config = NearConfig()
    sketch = Sketch(near_config.ngram, near_config.bands, near_config.rows)
    (part,) = parts.names

    def exact(folder: Path) -> None:
        run(ExactHashes(part, "text", parts.shuffle("exact-hashes")), folder)

    def near(folder: Path) -> None:
        drops = parts.pieces("exact-drops")
        run(NearSignatures(part, sketch, parts.shuffle("near-keys"), drops), folder)

    return [exact, near]


def write_pairs(
    low: float, high: float, count: int, draw: random.Random
) -> tuple[list[str], list[float]]:
    """Return pairs of texts with a similarity in [low, high), and these similarities.

    The two texts of a pair follow each other.
    """
    texts: list[str] = []
    similarities: list[float] = []

    while len(similarities) < count:
        wanted = draw.uniform(low, high)
        # k replaced among n words leave about (1 - s) / (1 + s) of the shingles
        replaced = max(1, round(_PAIR_WORDS * (1 - (2 * wanted / (1 + wanted)) ** 0.2)))
        words = draw.choices(_VOCABULARY, k=_PAIR_WORDS)
        other = list(words)
        for position in draw.sample(range(_PAIR_WORDS), replaced):
            other[position] = draw.choice(_VOCABULARY)
        left, right = (
            {tuple(each[at : at + 5]) for at in range(_PAIR_WORDS - 4)} for each in (words, other)
        )
        similarity = len(left & right) / len(left | right)
        if low <= similarity < high:
            texts += [" ".join(words), " ".join(other)]
            similarities.append(similarity)

    return texts, similarities


def recall_by_bins(count: int) -> list[dict[str, Any]]:
    """Return for each bin of similarity what theory says and what our signature finds.

    Each row has the share expected, its standard error, and the share found.
    """
    draw = random.Random(2)
    minhash = Sketch()
    made = [write_pairs(low, high, count, draw) for low, high in pairwise(_EDGES)]
    every = [text for texts, _ in made for text in texts]
    keys = minhash.band_keys(minhash.signatures(every)).tolist()
    rows = []

    for index, ((low, high), (_, similarities)) in enumerate(
        zip(pairwise(_EDGES), made, strict=True)
    ):
        chances = [1 - (1 - similarity**8) ** 14 for similarity in similarities]
        pairs = range(2 * count * index, 2 * count * (index + 1), 2)
        found = sum(any(map(eq, keys[at], keys[at + 1])) for at in pairs) / count
        # at least one pair in nine, because nearly certain bins have almost no variance
        error = max(sum(chance * (1 - chance) for chance in chances), 1 / 9) ** 0.5 / count
        rows.append(
            {
                "bin": f"{low} to {high}",
                "theory": sum(chances) / count,
                "error": error,
                "ours": found,
            }
        )

    return rows


def main() -> int:
    """Measure speed and recall; the exit code is 1 if our recall leaves theory."""
    options = parser(
        __doc__, megabytes=(4.0, "text to hash, in MB"), pairs=(1000, "pairs in each bin")
    ).parse_args()
    made = documents(options.megabytes)
    size = sum(len(document.text.encode()) for document in made) / 1e6
    rows = []

    with temporary_folder() as folder:
        part = folder / "documents" / "000000.arrow"
        part.parent.mkdir()
        write_documents(part, made)

        for (case, target), work in zip(TARGETS.items(), passes(folder), strict=True):

            def run(work: Callable[[Path], None] = work) -> None:
                with temporary_folder() as output:
                    work(output)

            with numpy_only():
                numpy_form = size / best_seconds(run, RUNS)
            ours = size / best_seconds(run, RUNS)
            target *= numpy_form if rows else 1
            rows.append(
                figure(case, "MB/s", ours, numpy_form, "numpy form", target, holds=ours >= target)
            )

    print_figures(rows)
    recall = recall_by_bins(options.pairs)
    print_rows(
        recall,
        {"bin": "{bin}"} | {name: f"{{{name}:.3f}}" for name in ("theory", "error", "ours")},
        f"recall by Jaccard similarity, {options.pairs:,} pairs a bin",
    )
    write_json(options.json, {"speed": rows, "recall": recall})
    return int(any(abs(row["ours"] - row["theory"]) > 3 * row["error"] for row in recall))


if __name__ == "__main__":
    raise SystemExit(main())
