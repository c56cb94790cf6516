"""Speed of corruption on one core: each objective's kernel, the stage end to end, and Hugging Face's collator.

    python benchmarks/corruption.py [--rows 1920] [--json FILE]

Rows fill 512 tokens with their frame. Kernels take them as one batch, as the stage and the stream do; the collator
gets batches of 32 tensors (or arrays) with their special-token masks, the fastest form it accepts. Figures are million
content tokens per CPU second, the best of several runs.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

os.environ.update(
    OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1"
)
sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from rich.console import Console
from rich.table import Table

from pipeline import registry
from pipeline.config import validate
from pipeline.execution.order import stage_of
from pipeline.execution.unit_record import Output
from pipeline.objectives import Objective, build_objective
from pipeline.objectives.mixture import Mixture
from pipeline.recipe import Recipe
from pipeline.rows import Ragged, Rows
from pipeline.shards import ColumnSpec, write_manifest, write_shard
from pipeline.vocabulary import SENTINELS, SPECIALS, Vocabulary

_RUNS = 7
_SIZE = 32_000
_FIRST = len(SPECIALS) + SENTINELS + 3
_SENTENCES = 20
_TARGETS = {
    "causal_lm": 1000.0,
    "composition": 25.0,
    "corrective_lm": 150.0,
    "denoising_autoencoding": 150.0,
    "document_rotation": 200.0,
    "masked_encoder_decoder": 150.0,
    "masked_lm": 150.0,
    "mass": 80.0,
    "mixture": 40.0,
    "next_sentence_prediction": 20.0,
    "permuted_lm": 100.0,
    "prefix_lm": 1000.0,
    "replaced_token_detection": 150.0,
    "sentence_comparison": 200.0,
    "sentence_order_prediction": 20.0,
    "sentence_reordering": 200.0,
    "span_boundary": 10.0,
    "span_corruption": 80.0,
    "text_infilling": 30.0,
    "text_to_text": 1000.0,
    "token_deletion": 150.0,
    "token_reordering": 100.0,
    "translation_lm": 150.0,
    "whole_word_masking": 20.0,
}
_VARIETIES: tuple[tuple[str, dict[str, Any], float], ...] = (
    ("mass, encoder", {"name": "mass", "architecture": "encoder"}, 80.0),
    ("masked_lm, by frequency", {"name": "masked_lm", "frequency_exponent": 0.5}, 40.0),
    ("masked_lm, prefix", {"name": "masked_lm", "attention": "prefix"}, 150.0),
    ("permuted_lm, single tokens", {"name": "permuted_lm", "unit": "token"}, 100.0),
    ("prefix_lm, encoder-decoder", {"name": "prefix_lm", "architecture": "encoder_decoder"}, 1000.0),
    ("replaced tokens, uniform", {"name": "replaced_token_detection", "replacement": "uniform"}, 150.0),
    ("replaced tokens, unigram", {"name": "replaced_token_detection", "replacement": "unigram"}, 150.0),
    ("replaced tokens, shuffle", {"name": "replaced_token_detection", "replacement": "shuffle"}, 150.0),
    ("sentence order, single tokens", {"name": "sentence_order_prediction", "max_span_length": 0}, 20.0),
    ("token_reordering, distance 3", {"name": "token_reordering", "max_shuffle_distance": 3}, 100.0),
)
"""Objectives in another form than their default: name, entry, target."""
_STAGE_TARGET = 15.0
_COLLATED = ("masked_lm", "permuted_lm", "whole_word_masking")
"""Objectives that have a collator in transformers."""


def vocabulary() -> Vocabulary:
    """Return a vocabulary of 32,000 ids, specials first, with Zipf's frequencies."""
    special = np.arange(_SIZE) < _FIRST
    first = len(SPECIALS)
    return Vocabulary(
        size=_SIZE,
        specials={name: index for index, name in enumerate(SPECIALS)},
        sentinels=tuple(range(first, first + SENTINELS)),
        modes={mode: first + SENTINELS + index for index, mode in enumerate("RSX")},
        special=special,
        word_start=np.arange(_SIZE) % 2 == 0,
        fingerprint="0" * 64,
        token_counts=10**8 // np.arange(1, _SIZE + 1),
    )


def samples(rows: int, length: int, words: Vocabulary) -> Rows:
    """Return random rows of equal length with 20 sentences each, beside a partner and another side as long."""
    random = np.random.RandomState(1)
    starts = np.stack([random.permutation(length - 1)[: _SENTENCES - 1] for _ in range(rows)])
    starts = np.concatenate((np.zeros((rows, 1), np.int64), np.sort(starts, axis=1) + 1), axis=1)
    ids = random.randint(_FIRST, _SIZE, (rows, length)).astype(words.id_dtype)
    fixed = {"uid": random.randint(0, 1 << 62, rows).astype(np.uint64), "variant": np.zeros(rows, np.uint16)}
    fixed |= {"part": (np.arange(rows) % 7).astype(np.uint8), "language": np.zeros(rows, np.uint8)}
    columns = {
        "ids": ids,
        "sentence_starts": starts.astype(np.uint16),
        "document_starts": np.zeros((rows, 1), np.uint16),
        "partner_ids": ids[::-1, : length - 1],
        "target_ids": ids[::-1, : length // 2],
        "target_language": np.ones((rows, 1), np.uint8),
    }
    return Rows(fixed, {name: Ragged.from_matrix(matrix) for name, matrix in columns.items()})


def speed(work: Callable[[], Any], tokens: int) -> float:
    """Return millions of tokens per CPU second, the best of some runs."""
    work()
    best = float("inf")
    for _ in range(_RUNS):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return tokens / best / 1e6


def kernel(objective: Objective, rows: int) -> float:
    """Return the speed of `corrupt` on full rows."""
    parts = objective.parts if isinstance(objective, Mixture) else [objective]
    length = min(part.content_length for part in parts) if objective.name != "causal_lm" else 512
    parallel = objective.grouping.name == "parallel"
    if parallel:  # both sides fill a row together
        length = length * 2 // 3
    batch = samples(rows, length, objective.vocabulary)
    variants = np.zeros(rows, np.uint16)
    skipped = int(np.count_nonzero(objective.corrupt(batch, variants, 1)[1]))
    if skipped:
        raise SystemExit(f"{objective.label} skips {skipped} of {rows} rows: they measure nothing")
    tokens = len(batch.columns["ids"].values) + parallel * len(batch.columns["target_ids"].values)
    return speed(lambda: objective.corrupt(batch, variants, 1), tokens)


def tokenizer() -> Any:
    """Return a tokenizer of Hugging Face's with our ids."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = {f"<{name}>": index for index, name in enumerate(SPECIALS)}
    words |= {f"w{index}": index for index in range(len(words), _SIZE)}
    names = {f"{name}_token": f"<{name}>" for name in ("pad", "cls", "sep", "mask", "unk")}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel(words, unk_token="<unk>")), **names)


def collator(kind: str, form: str) -> float:
    """Return the speed of a collator of Hugging Face's.

    Args:
        kind: the objective: masked_lm, whole_word_masking, permuted_lm.
        form: pt or np.
    """
    import torch
    from transformers import DataCollatorForLanguageModeling, DataCollatorForPermutationLanguageModeling

    torch.set_num_threads(1)
    collate: Any
    if kind == "permuted_lm":
        collate = DataCollatorForPermutationLanguageModeling(tokenizer(), return_tensors=form)
    else:
        whole = kind == "whole_word_masking"  # which masks every label: it supports no other role
        shares = {"whole_word_mask": True, "mask_replace_prob": 1.0, "random_replace_prob": 0.0} if whole else {}
        collate = DataCollatorForLanguageModeling(tokenizer(), mlm_probability=0.15, return_tensors=form, **shares)
    batch = _collator_batch(kind, torch.as_tensor if form == "pt" else np.asarray)
    rounds = 8 if kind == "masked_lm" else 1
    return speed(lambda: [collate([dict(row) for row in batch]) for _ in range(rounds)], rounds * 32 * 510)


def _collator_batch(kind: str, make: Callable[[Any], Any]) -> list[dict[str, Any]]:
    """Return 32 rows of 512 tokens; the characters between their tokens part the words."""
    ids = np.random.RandomState(1).randint(_FIRST, _SIZE, (32, 512))
    frame = np.zeros_like(ids)
    frame[:, [0, -1]] = 1
    ends = np.cumsum(2 + (ids % 2 == 0), axis=1)
    offsets = np.stack((ends - 2, ends), axis=2)
    batch = [{"input_ids": make(row), "special_tokens_mask": make(one)} for row, one in zip(ids, frame, strict=True)]
    if kind == "whole_word_masking":
        batch = [{**row, "offset_mapping": make(one)} for row, one in zip(batch, offsets, strict=True)]
    return batch


def stage(documents: int) -> float:
    """Return the speed of `corrupt` end to end for masked LM: read, corrupt, compress, write."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_tokens(folder, documents)
        plain = {"corpus": "benchmark", "output": name, "heldout": {"fraction": 0.0}, "group": {},
                 "corrupt": ["masked_lm"]}  # fmt: skip
        recipe = validate(Recipe, plain, "benchmark")
        for work in stage_of(recipe, "group").passes():
            _run(work, Output(recipe.folder("group")))
        (shards, _) = stage_of(recipe, "corrupt").passes()
        output = Output(recipe.folder("corrupt"))
        return speed(lambda: _run(shards, output), int(_run(shards, output)["tokens"]))


def _run(work: Any, output: Output) -> Mapping[str, Any]:
    """Return the first unit of a pass, with the record that a manifest pass needs."""
    from pipeline.execution.unit_record import UnitRecord

    counts: Mapping[str, Any] = work.run(0, output)
    UnitRecord(work.name, 0, "", "ok", dict(counts), output.files).save(output.folder)
    return counts


def _write_tokens(folder: Path, documents: int) -> None:
    """Return a token set of one shard with the frequencies of text."""
    words, random = vocabulary(), np.random.RandomState(1)
    tokenizer = folder / "train_tokenizer" / "tokenizer"
    tokenizer.mkdir(parents=True)
    words.save(tokenizer / "vocabulary.json")
    ids = [_FIRST + random.zipf(1.3, random.randint(1, 1000)) % (_SIZE - _FIRST) for _ in range(documents)]
    fixed = {"document_uid": random.randint(0, 256, (documents, 16)).astype(np.uint8)}
    fixed |= {"language": np.zeros(documents, np.uint8), "source_group": np.zeros(documents, np.uint16)}
    columns = {
        "token_ids": Ragged.from_lists(ids, np.uint16),
        "sentence_starts": Ragged.from_lists([range(0, len(one), 25) for one in ids], np.uint32),
    }
    specs = [ColumnSpec("document_uid", "binary16", "fixed", ""), ColumnSpec("language", "uint8", "fixed", ""),
             ColumnSpec("source_group", "uint16", "fixed", ""), ColumnSpec("token_ids", "uint16", "list", ""),
             ColumnSpec("sentence_starts", "uint32", "list", "")]  # fmt: skip
    output = Output(folder / "encode")
    with output.file("shard-00000-of-00001.arrow") as path:
        info = write_shard(path, Rows(fixed, columns), specs, block_rows=512, name="shard-00000-of-00001.arrow")
    write_manifest(
        folder / "encode", name="tokens", kind="tokens", seed=1, columns=specs, block_rows=512, container="arrow",
        codec="none", shards=[info], output=output, languages=["en"],
        tokenizer={"name": "byte_bpe", "fingerprint": words.fingerprint, "vocab_size": _SIZE,
                   "special_ids": words.specials, "sentinels": list(words.sentinels)},
    )  # fmt: skip


def row(case: str, ours: float, peer: float | None, peer_name: str, target: float) -> dict[str, Any]:
    """Return one line of the table."""
    ratio = ours / peer if peer else None
    return {"case": case, "ours": ours, "peer": peer, "peer_name": peer_name, "ratio": ratio,
            "unit": "million tokens/s", "target": target, "holds": ours >= target}  # fmt: skip


def measure(rows: int, documents: int) -> list[dict[str, Any]]:
    """Measure all cases."""
    words = vocabulary()
    found = []
    for name in registry.names("pipeline.objectives"):
        ours = kernel(build_objective(name, words), rows)
        forms = {"torch": "pt", "numpy": "np"} if name in _COLLATED else {}
        for label, form in forms.items():
            peer_name = f"transformers collator, {label}"
            found.append(row(name, ours, collator(name, form), peer_name, _TARGETS[name]))
        if not forms:
            found.append(row(name, ours, None, "", _TARGETS.get(name, 0.0)))
    for case, entry, target in _VARIETIES:
        found.append(row(case, kernel(build_objective(entry, words), rows), None, "", target))
    found.append(row("stage corrupt, masked_lm, zstd", stage(documents), None, "", _STAGE_TARGET))
    return found


def main() -> int:
    """Measure, print a table, and write the rows where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1920, help="rows in a batch")
    parser.add_argument("--documents", type=int, default=8000, help="documents for the stage, 500 tokens on average")
    parser.add_argument("--json", type=Path, help="file to write the rows to")
    arguments = parser.parse_args()
    found = measure(arguments.rows, arguments.documents)
    table = Table("case", "ours", "peer", "ratio", "target", "holds", title="million tokens per CPU second, one core")
    for one in found:
        peer = f"{one['peer']:.2f} ({one['peer_name']})" if one["peer"] else "–"
        ratio = f"{one['ratio']:.0f} x" if one["ratio"] else "–"
        table.add_row(
            one["case"], f"{one['ours']:.1f}", peer, ratio, f"{one['target']:.0f}", "yes" if one["holds"] else "NO"
        )
    Console().print(table)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
