"""Run the passes of train_tokenizer and encode on documents made in a test, without the driver."""

import random
from types import SimpleNamespace

from clozeline.configuration.config import validate
from clozeline.pipeline.execution.shuffle import Shuffle
from clozeline.pipeline.execution.stages import Pass
from clozeline.pipeline.execution.unit_record import add_counts
from clozeline.pipeline.ingest.documents.document import Document, document_uid
from clozeline.pipeline.ingest.documents.files import documents_name, write_documents
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.registries import SENTENCES
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.encode.merge_runs import (
    AssignCodes,
    MergeRuns,
    TokenManifest,
    name_shard,
)
from clozeline.pipeline.tokenize.encode.tokenize_documents import TokenizeDocuments
from clozeline.pipeline.tokenize.train.stage import TrainTokenizerStage
from tests.pipeline.unit_runs import run_pass, stage_in

SEED = 7
HELDOUT = 0.2
PARTS = 4
SHARDS = 3
COUNT = 90
WORDS = (
    "the a quick brown fox jumps over lazy dog while seven wizards brew strange purple "
    "potions near old bridge"
).split()


def text(number, sentences=12):
    """Sentences of words, two paragraphs, sometimes with characters outside ASCII.

    The same for the same number.
    """
    draw = random.Random(number)
    made = [
        " ".join(draw.choices(WORDS, k=draw.randrange(4, 12))).capitalize() + "."
        for _ in range(sentences)
    ]
    made[0] = f"Café {number} 中文。" + made[0]
    half = sentences // 2
    return " ".join(made[:half]) + "\n\n" + " ".join(made[half:])


def documents(count):
    return [
        Document(
            uid=document_uid("test", "crawl/a.jsonl", "jsonl", number),
            text=text(number, 4 + number % 20),
            source="crawl/a.jsonl",
            source_group="crawl" if number % 3 else "books",
            offset=number * 100,
            length=99,
            url=f"http://x.example/{number}" if number % 4 else None,
            language=("en", "de", "zh")[number % 3],
        )
        for number in range(count)
    ]


def write_parts(folder, found, parts):
    """`documents/<part:06d>.arrow`, the documents dealt in order."""
    (folder / "documents").mkdir(parents=True)
    names = tuple(f"{part:06d}" for part in range(parts))
    for part, name in enumerate(names):
        write_documents(folder / documents_name(name), found[part::parts])
    return SimpleNamespace(folder=folder, names=names)


def training(source, heldout=HELDOUT, **config):
    """Return the passes of train_tokenizer."""
    keys = {"corpus": "test", "output": "out", "seed": SEED, "heldout": {"fraction": heldout}}
    stage = TrainTokenizerStage(validate(Recipe, {**keys, "train_tokenizer": config}, "recipe"))
    stage.plan = source
    return stage.passes()


def train(source, folder, *, name="byte_bpe", size=700, budget=10**9):
    made = training(source, name=name, size=size, sample_bytes=budget)
    return run_passes(stage_in(folder, documents=source.folder), made)


def encode(source, folder, tokenizer, *, shards, order=list, max_unknown=1.0):
    names = tuple(name_shard(shard, shards) for shard in range(shards))
    runs = Shuffle("runs", source.names, names, "tokenize")
    splitter = SENTENCES.resolve("regex")
    config = {"sentences": {"name": "regex"}}
    merge = {
        f"{shard:06d}": MergeRuns(shard, shards, runs.pieces, HELDOUT, SEED)
        for shard in range(shards)
    }
    manifest = TokenManifest("test", shards, SEED, config, "train_tokenizer")
    passes = [
        Pass(
            "tokenize",
            {part: TokenizeDocuments(part, 1, splitter, runs, SEED) for part in source.names},
        ),
        *runs.passes("encode"),
        Pass("codes", {"000000": AssignCodes(2, max_unknown)}),
        Pass("merge", merge),
        Pass("manifest", {"000000": manifest}),
    ]
    stage = stage_in(folder, documents=source.folder, tokenizer=tokenizer.parent)
    return run_passes(stage, passes, order)


def run_passes(stage, passes, order=list):
    total = {}
    for work in passes:
        add_counts(total, run_pass(stage, work, order))
    return total


def token_rows(folder):
    """uid to shard, ids, sentence starts, language, source group."""
    found = {}
    tokens = open_shards(folder)
    for block in range(len(tokens.index)):
        rows = tokens.read_block(block)
        for row in rows:
            language = tokens.manifest.languages[row.fixed["language"]]
            group = tokens.manifest.source_groups[row.fixed["source_group"]]
            key = row.fixed["document_uid"].tobytes()
            found[key] = (
                int(tokens.index.shard[block]),
                row["token_ids"],
                row["sentence_starts"],
                language,
                group,
            )

    return found
