"""Measure the speed of corruption on one core, next to the collator of Hugging Face.

Measured are the kernel of each objective, and the complete stage.

    python -m benchmarks.corruption [--rows 1920] [--documents 8000] [--json FILE]

Rows are 512 tokens with their special tokens. Kernels take them as one batch, as the stage and the
stream do; the collator gets batches of 32 tensors (or arrays) with their special-token masks, the
fastest form it accepts. Figures are million content tokens per CPU second, the best of several
runs.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness import best_seconds, figure, finish, parser, temporary_folder

import numpy as np

from clozeline.configuration.config import validate
from clozeline.pipeline.corrupt.objectives import Objective, build_objective
from clozeline.pipeline.corrupt.objectives.mixture import Mixture
from clozeline.pipeline.execution.stages import stage_of
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import write_manifest, write_shard
from clozeline.pipeline.shards.column_set import token_columns
from clozeline.pipeline.vocabulary import SENTINELS, SPECIALS, Corpus, Vocabulary

SMALLEST = "--rows 64 --documents 50"
os.environ.update(TRANSFORMERS_VERBOSITY="error", HF_HUB_OFFLINE="1")

_RUNS = 7
_SIZE = 32_000
_FIRST = len(SPECIALS) + SENTINELS + 3
_SENTENCES = 20
_OBJECTIVES_BY_TARGET = {
    1000.0: "causal_lm prefix_lm text_to_text",
    100.0: "document_rotation sentence_comparison sentence_reordering",
    40.0: "corrective_lm denoising_autoencoding masked_encoder_decoder masked_lm mass permuted_lm "
    "replaced_token_detection token_deletion token_reordering translation_lm",
    20.0: "composition mixture next_sentence_prediction span_corruption text_infilling",
    10.0: "sentence_order_prediction span_boundary whole_word_masking",
}
_TARGETS = {
    name: target for target, names in _OBJECTIVES_BY_TARGET.items() for name in names.split()
}
_VARIETIES: tuple[tuple[str, dict[str, Any], float], ...] = (
    ("mass, encoder", {"name": "mass", "architecture": "encoder"}, 30.0),
    ("masked_lm, by frequency", {"name": "masked_lm", "frequency_exponent": 0.5}, 15.0),
    ("masked_lm, prefix", {"name": "masked_lm", "attention": "prefix"}, 30.0),
    ("permuted_lm, single tokens", {"name": "permuted_lm", "unit": "token"}, 30.0),
    ("prefix_lm, encoder-decoder", {"name": "prefix_lm", "architecture": "encoder_decoder"}, 500.0),
    *(
        (
            f"replaced tokens, {replacement}",
            {"name": "replaced_token_detection", "replacement": replacement},
            30.0,
        )
        for replacement in ("uniform", "unigram", "shuffle")
    ),
    (
        "sentence order, single tokens",
        {"name": "sentence_order_prediction", "max_span_length": 0},
        30.0,
    ),
)
"""Objectives with options other than their defaults: case, recipe entry, target."""
_STAGE_TARGETS = {"masked_lm": 15.0, "whole_word_masking": 10.0}
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
        corpus=Corpus(10**8 // np.arange(1, _SIZE + 1)),
    )


def samples(rows: int, length: int, words: Vocabulary) -> RowBatch:
    """Return random rows of equal length with 20 sentences each, a partner row and a target row."""
    random = np.random.RandomState(1)
    starts = np.stack([random.permutation(length - 1)[: _SENTENCES - 1] for _ in range(rows)])
    starts = np.concatenate((np.zeros((rows, 1), np.int64), np.sort(starts, axis=1) + 1), axis=1)
    ids = random.randint(_FIRST, _SIZE, (rows, length)).astype(words.id_dtype)
    fixed = {
        "uid": random.randint(0, 1 << 62, rows).astype(np.uint64),
        "variant": np.zeros(rows, np.uint16),
    }
    fixed |= {"part": (np.arange(rows) % 7).astype(np.uint8), "language": np.zeros(rows, np.uint8)}
    columns = {
        "ids": ids,
        "sentence_starts": starts.astype(np.uint16),
        "document_starts": np.zeros((rows, 1), np.uint16),
        "partner_ids": ids[::-1, : length - 1],
        "target_ids": ids[::-1, : length // 2],
        "target_language": np.ones((rows, 1), np.uint8),
    }

    return RowBatch(fixed, {name: Ragged.from_matrix(matrix) for name, matrix in columns.items()})


def speed(work: Callable[[], Any], tokens: int) -> float:
    return tokens / best_seconds(work, _RUNS) / 1e6


def kernel(objective: Objective, rows: int) -> float:
    """Return the speed of `corrupt` on full rows."""
    parts = objective.parts if isinstance(objective, Mixture) else [objective]
    length = min(part.content_length for part in parts) if objective.name != "causal_lm" else 512
    parallel = objective.grouping.name == "parallel"
    if parallel:  # source and target fill a row together
        length = length * 2 // 3
    batch = samples(rows, length, objective.vocabulary)
    variants = np.zeros(rows, np.uint16)
    skipped = int(np.count_nonzero(objective.corrupt(batch, variants, 1)[1]))
    if skipped:
        raise SystemExit(
            f"{objective.label} skips {skipped} of {rows} rows, so its speed cannot be measured"
        )

    tokens = len(batch.columns["ids"].values) + parallel * len(batch.columns["target_ids"].values)
    return speed(lambda: objective.corrupt(batch, variants, 1), tokens)


def tokenizer() -> Any:
    """Return a Hugging Face tokenizer with our ids."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    words = {f"<{name}>": index for index, name in enumerate(SPECIALS)}
    words |= {f"w{index}": index for index in range(len(words), _SIZE)}
    names = {f"{name}_token": f"<{name}>" for name in ("pad", "cls", "sep", "mask", "unk")}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(WordLevel(words, unk_token="<unk>")), **names
    )


def collator(name: str, form: str) -> float:
    """Return the speed of Hugging Face's collator for an objective.

    It takes torch tensors (`pt`) or arrays (`np`).
    """
    import torch
    from transformers import (
        DataCollatorForLanguageModeling,
        DataCollatorForPermutationLanguageModeling,
    )

    torch.set_num_threads(1)
    collate: Any

    if name == "permuted_lm":
        collate = DataCollatorForPermutationLanguageModeling(tokenizer(), return_tensors=form)
    else:
        # which supports no other replacement than the mask
        whole_word = name == "whole_word_masking"
        shares = (
            {"whole_word_mask": True, "mask_replace_prob": 1.0, "random_replace_prob": 0.0}
            if whole_word
            else {}
        )
        collate = DataCollatorForLanguageModeling(
            tokenizer(), mlm_probability=0.15, return_tensors=form, **shares
        )

    batch = _collator_batch(name, torch.as_tensor if form == "pt" else np.asarray)
    rounds = 8 if name == "masked_lm" else 1
    return speed(
        lambda: [collate([dict(row) for row in batch]) for _ in range(rounds)], rounds * 32 * 510
    )


def _collator_batch(name: str, make: Callable[[Any], Any]) -> list[dict[str, Any]]:
    ids = np.random.RandomState(1).randint(_FIRST, _SIZE, (32, 512))
    special = np.zeros_like(ids)
    special[:, [0, -1]] = 1
    ends = np.cumsum(2 + (ids % 2 == 0), axis=1)
    offsets = np.stack((ends - 2, ends), axis=2)
    batch = [
        {"input_ids": make(row), "special_tokens_mask": make(of_row)}
        for row, of_row in zip(ids, special, strict=True)
    ]

    if name == "whole_word_masking":
        batch = [
            {**row, "offset_mapping": make(of_row)}
            for row, of_row in zip(batch, offsets, strict=True)
        ]

    return batch


def stage(documents: int, objective: str) -> float:
    """Return the speed of the complete stage: read, corrupt, compress, write."""
    with temporary_folder() as folder:
        _write_tokens(folder, documents)
        plain = {
            "corpus": "benchmark",
            "output": str(folder),
            "heldout": {"fraction": 0.0},
            "train_tokenizer": {},
            "group": {},
            "corrupt": [objective],
        }

        recipe = validate(Recipe, plain, "benchmark")
        group = stage_of(recipe, "group")
        for work in group.passes():
            _run(group, work)
        corrupt = stage_of(recipe, "corrupt")
        shards = next(iter(corrupt.passes()))
        counts = _run(corrupt, shards)["objectives"][objective]["train"]
        return speed(lambda: _run(corrupt, shards), counts["tokens"])


def _run(stage: Any, work: Any) -> Mapping[str, Any]:
    from clozeline.pipeline.execution.stages import UnitRunner
    from clozeline.pipeline.execution.unit_record import UnitRecord

    unit = next(iter(work.units))
    runner = UnitRunner(stage, work, {unit: {}})
    runner(unit)
    record = UnitRecord.read(runner.path(unit))
    if record is None or record.status != "ok":
        raise RuntimeError(f"{runner.path(unit)}: the unit failed")
    return record.counts


def _write_tokens(folder: Path, documents: int) -> None:
    words = vocabulary()
    random = np.random.RandomState(1)
    tokenizer = folder / "train_tokenizer" / "tokenizer"
    tokenizer.mkdir(parents=True)
    words.save(tokenizer / "vocabulary.json")
    ids = [
        _FIRST + random.zipf(1.3, random.randint(1, 1000)) % (_SIZE - _FIRST)
        for _ in range(documents)
    ]
    fixed = {"document_uid": random.randint(0, 256, (documents, 16)).astype(np.uint8)}
    fixed |= {
        "language": np.zeros(documents, np.uint8),
        "source_group": np.zeros(documents, np.uint16),
    }
    columns = {
        "token_ids": Ragged.from_lists(ids, np.uint16),
        "sentence_starts": Ragged.from_lists(
            [range(0, len(document_ids), 25) for document_ids in ids], np.uint32
        ),
    }

    specs = token_columns(_SIZE)
    output = Output(folder / "encode")
    with output.file("shard-00000-of-00001.arrow") as path:
        info = write_shard(
            path, RowBatch(fixed, columns), specs, block_rows=512, name="shard-00000-of-00001.arrow"
        )

    write_manifest(
        folder / "encode",
        name="tokens",
        kind="tokens",
        seed=1,
        columns=specs,
        block_rows=512,
        container="arrow",
        codec="none",
        shards=[info],
        output=output,
        languages=["en"],
        tokenizer={
            "name": "byte_bpe",
            "fingerprint": words.fingerprint,
            "vocab_size": _SIZE,
            "special_ids": words.specials,
            "sentinels": list(words.sentinels),
        },
    )


def measure(rows: int, documents: int) -> list[dict[str, Any]]:
    """Return the row of each case."""
    words = vocabulary()
    figures = []

    def add(
        case: str, ours: float, target: float, peer: float | None = None, peer_name: str = ""
    ) -> None:
        figures.append(
            figure(case, "million tokens/s", ours, peer, peer_name, target, holds=ours >= target)
        )

    for name in OBJECTIVES.available():
        ours = kernel(build_objective(name, words), rows)
        target = _TARGETS.get(name, 0.0)
        if name not in _COLLATED:
            add(name, ours, target)
            continue
        for label, form in (("torch", "pt"), ("numpy", "np")):
            add(name, ours, target, collator(name, form), f"transformers collator, {label}")

    for case, entry, target in _VARIETIES:
        add(case, kernel(build_objective(entry, words), rows), target)
    for name, target in _STAGE_TARGETS.items():
        add(f"stage corrupt, {name}, zstd", stage(documents, name), target)
    return figures


def main() -> int:
    """Measure, print and return the exit code."""
    documents = (8000, "documents for the stage, 500 tokens on average")
    options = parser(__doc__, rows=(1920, "rows in a batch"), documents=documents).parse_args()
    rows = measure(options.rows, options.documents)
    return finish(rows, options.json, "million tokens per CPU second, one core")


if __name__ == "__main__":
    raise SystemExit(main())
