"""Recompute counts of `dedup`, `decontaminate`, `train_tokenizer` and `encode` from documents and configuration."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from clozeline import registry
from clozeline.configuration.config import to_plain
from clozeline.pipeline import all_stages
from clozeline.pipeline.dedup.near import MinHash
from clozeline.pipeline.ingest.documents.copies import FACTORS_FILE, CopyFactors
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import read_all_documents, read_documents, read_rejects
from clozeline.pipeline.recipe import load_recipe
from clozeline.pipeline.shards import ShardSet, open_shards
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.pipeline.shards.token_set import find_token_counts
from clozeline.pipeline.tasks.readers import facts_of
from clozeline.recorded_file import RecordedFile
from clozeline.seeding import fraction
from tests.pipeline.contamination_counts import recount_contamination

Recounted: TypeAlias = Iterator[tuple[str, object, object]]
"""Name of a count, its value in the report, and the recomputed value."""


def recount(folder: Path, counts: Mapping[str, Any]) -> Recounted:
    """Yield the counts of a stage that follow from its input, its output and its configuration."""
    config: dict[str, Any] = to_plain(load_recipe(folder / "config.yaml"))
    if "held_out" in counts:
        yield from _recount_heldout(folder, config, counts)
    if "hashed" in counts:
        by_url = config["dedup"]["exact"]["key"] == "url"
        keyed = sum(document.url is not None or not by_url for document in _documents_before(folder))
        yield "hashed", counts["hashed"], keyed
    if "signatures" in counts:
        rejected = counts["rejected"]  # compared with the files
        remaining = counts["documents_out"] + sum(rejected.values()) - rejected.get("exact_duplicate", 0)
        yield "signatures", counts["signatures"], remaining
    # with another output, candidates are also among its documents
    if "candidates" in counts.get("near", {}) and config["dedup"]["against"] is None:
        yield from _recount_candidates(folder, config["dedup"]["near"], counts["near"])
    if "pieces" in counts:
        yield from _recount_edits(folder, counts)
    if "contaminated_documents" in counts:
        yield from recount_contamination(folder, config["decontaminate"], counts, _documents_before(folder))
    if "sample" in counts:
        yield from _recount_sample(folder, config, counts)
    if "copies" in counts:
        yield "copies", counts["copies"], _copy_documents(folder, config)


def _documents_before(folder: Path) -> Iterator[Document]:
    """Yield the documents of the nearest earlier stage that wrote any."""
    names = all_stages()
    earlier = [folder.parent / name / "documents" for name in reversed(names[: names.index(folder.name)])]
    return read_all_documents(next(documents for documents in earlier if documents.is_dir()))


def _recount_candidates(folder: Path, options: Mapping[str, Any], counts: Mapping[str, int]) -> Recounted:
    """Yield the documents that share a band key, counted over all documents at once; their keys are kept in memory."""
    rejects = (row for file in sorted((folder / "rejects").glob("*.arrow")) for row in read_rejects(file))
    # texts that exact dedup has kept
    copies = {row.uid for row in rejects if row.reason == "exact_duplicate"}
    minhash = MinHash(**{name: options[name] for name in ("ngram", "bands", "rows")})
    texts = (
        document.text if document.target_text is None else f"{document.text}\n{document.target_text}"
        for document in _documents_before(folder)
        if document.uid not in copies
    )
    # band keys [documents, bands], and how many documents share each
    keys = np.array([minhash.band_keys(minhash.signature(text)) for text in texts])
    _, key_index, holders = np.unique(keys, return_inverse=True, return_counts=True)
    shared = (holders[key_index] > 1).reshape(keys.shape)
    yield "near.candidates", counts["candidates"], int(shared.sum())
    yield "near.members", counts["members"], int(shared.any(axis=-1).sum())


def _recount_edits(folder: Path, counts: Mapping[str, Any]) -> Recounted:
    """Yield the documents without some pieces, and the characters that they lost, by comparing documents."""
    left = {document.uid: document.text for file in sorted((folder / "documents").glob("*.arrow"))
            for document in read_documents(file)}  # fmt: skip
    pairs = ((document.text, left.get(document.uid, document.text)) for document in _documents_before(folder))
    lost = [len(before) - len(after) for before, after in pairs if before != after]
    yield "edited", counts.get("edited", 0), len(lost)
    yield "edits", sum(counts.get("edits", {}).values()), sum(lost)


def _recount_sample(folder: Path, config: Mapping[str, Any], counts: Mapping[str, Any]) -> Recounted:
    """Yield the tokenizer's training sample: documents chosen by a hash of their uid, up to a budget."""
    settings, seed = config["train_tokenizer"], config["seed"]
    sizes, languages, heldout = dict[bytes, int](), dict[bytes, str](), 0
    for document in _documents_before(folder):
        if is_heldout(document.uid, config["heldout"]["fraction"], seed):
            heldout += 1
        else:
            sizes[document.uid] = len(document.text.encode()) + len((document.target_text or "").encode())
            other = "" if document.target_text is None else f"-{document.target_language or 'und'}"
            languages[document.uid] = document.language + other
    # bytes per language of the training documents
    available = Counter[str]()
    for uid, size in sizes.items():
        available[languages[uid]] += size
    kind = registry.find("clozeline.pipeline.tokenize.tokenizers", settings["name"])
    means = shares(available, settings["sample_bytes"] or kind.SAMPLE_BYTES, settings.get("alpha", 1))
    copies = {
        uid: int(means[name]) + (fraction(uid, "tokenizer", seed) < means[name] % 1) for uid, name in languages.items()
    }
    learned = Counter[str]()
    for uid, count in copies.items():
        if count and sizes[uid]:
            learned[languages[uid]] += count * sizes[uid]
    chosen = sum(count > 0 for count in copies.values())
    expected = {"documents": chosen, "bytes": sum(learned.values()), "languages": dict(learned)}
    yield "sample", counts["sample"], {name: expected[name] for name in counts["sample"]}
    yield "skipped", counts["skipped"], {"held_out": heldout, "over_budget": len(sizes) - chosen}
    yield "vocabulary.asked", counts["vocabulary"]["asked"], settings["size"]


def shares(available: Mapping[str, int], budget: int, alpha: float) -> dict[str, float]:
    """Return the mean copies of a text per language: its share is its bytes to the power of alpha."""
    size, whole = min(budget, sum(available.values())), sum(number**alpha for number in available.values() if number)
    return {
        name: min(4.0, size * number**alpha / whole / number) if number else 1.0 for name, number in available.items()
    }


def _copy_documents(folder: Path, config: Mapping[str, Any]) -> dict[str, int]:
    """Return the copies of the training documents of a token set, by the factors that `balance` wrote."""
    shards, seed = open_shards(folder.parent / "encode/manifest.json"), config["seed"]
    factors = CopyFactors.read(RecordedFile(folder.parent / "balance" / FACTORS_FILE), seed)
    names, sources = shards.manifest.languages, shards.manifest.source_groups
    total = Counter(documents=0, tokens=0, target_tokens=0, left_out=0)
    for number in range(len(shards.index)):
        block = shards.read_block(number)
        for copies, row in zip(factors.of_rows(block, names, sources).tolist(), block, strict=True):
            if not is_heldout(row.fixed["document_uid"].tobytes(), config["heldout"]["fraction"], seed):
                targets = len(row["target_ids"]) if "target_ids" in row else 0
                sizes = {"documents": copies, "tokens": copies * len(row["token_ids"])}
                total.update({**sizes, "target_tokens": copies * targets, "left_out": copies == 0})
    return dict(total)


def _recount_heldout(folder: Path, config: Mapping[str, Any], counts: Mapping[str, Any]) -> Recounted:
    """Yield the held-out part of a token set, and the other tokens."""
    shards = open_shards(folder / "manifest.json")
    documents = heldout_tokens = held_others = train_tokens = 0
    for number in range(len(shards.index)):
        block = shards.read_block(number)
        sizes = block.columns["token_ids"].lengths.tolist()
        others = block.columns["target_ids"].lengths.tolist() if "target_ids" in block.columns else [0] * len(block)
        for uid, size, other in zip(block.fixed["document_uid"], sizes, others, strict=True):
            if is_heldout(uid.tobytes(), config["heldout"]["fraction"], config["seed"]):
                documents, heldout_tokens, held_others = documents + 1, heldout_tokens + size, held_others + other
            else:
                train_tokens += size + other
    computed = {"documents": documents, "tokens": heldout_tokens, "target_tokens": held_others}
    yield "held_out", counts["held_out"], {name: computed[name] for name in counts["held_out"]}
    if (by_id := find_token_counts(folder / "manifest.json")) is not None:
        yield "tokens by id", int(by_id.sum()), train_tokens


def task_counts(shards: ShardSet, reported: Mapping[str, Any], name: str) -> Recounted:
    """Yield the rows, windows and classes of one split of a task, given the counts that the report has for it."""
    texts, rows, classes = set[bytes](), 0, Counter[int]()
    for number in range(len(shards.index)):
        block = shards.read_block(number)
        texts.update(uid.tobytes() for uid in block.fixed["document_uid"])
        rows += len(block)
        for column in ("label", "tags"):
            if column in block.columns:
                classes.update(block.columns[column].values.tolist())
        if "labels" in block.columns:
            several = block.columns["labels"].values.reshape(len(block), -1)
            classes.update({index: count for index, count in enumerate(several.sum(0, dtype=int).tolist()) if count})
    facts = facts_of(shards.manifest)
    labels = () if facts is None else facts.labels
    yield f"{name}.windows", reported["windows"], rows - len(texts)
    yield f"{name}.rows_in", reported["rows_in"], len(texts) + sum(reported["refused"].values())
    yield f"{name}.labels", reported["labels"], {labels[label]: count for label, count in classes.items()}
