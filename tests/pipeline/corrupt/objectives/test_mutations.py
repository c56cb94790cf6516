"""Tests of objectives, groupings and batches notice a broken line: each mutation of a copy must fail its test file.

The golden bytes stand in another file, so that what fails here is a property, a law or a plain loop.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
OBJECTIVES, GROUPINGS = "tests/pipeline/corrupt/objectives/test_", "tests/pipeline/group/groupings/test_"
COLLATE, KERNELS = "tests/train/data/stream/test_collate.py", "tests/pipeline/kernels/test_sampling.py"
RATES = "tests/pipeline/kernels/test_rates.py"
PAIRS, WORDS = GROUPINGS + "sentence_pair.py", OBJECTIVES + "whole_word_masking.py"
MASKED, INFILLING = OBJECTIVES + "masked_lm.py", OBJECTIVES + "text_infilling.py"
FAILED = 1
"""Pytest's exit code where tests ran and some failed; that of a file that cannot be imported is another."""

# One line of an objective: file and test bear its name.
OF_OBJECTIVES = [
    ("causal_lm", "if framed else ids", "if not framed else ids"),
    ("composition", "in reversed(self.steps)", "in self.steps"),
    ("corrective_lm", "(omitted + 1).astype", "omitted.astype"),
    ("denoising_autoencoding", "count_at_rate(ids.lengths, self._rate)", "count_at_rate(ids.lengths, self._rate // 2)"),
    ("document_rotation", "1 + below(word", "below(word"),
    ("masked_encoder_decoder", "self.id_of(options.decoder_start)", 'self.id_of("bos")'),
    ("masked_lm", "prefix = 2 + below", "prefix = 1 + below"),
    ("mass", "last = lengths - taken", "last = lengths - taken - 1"),
    ("mixture", 'np.argsort(np.concatenate(rows), kind="stable")', "np.concatenate(rows)"),
    ("next_sentence_prediction", "np.minimum(ids.lengths - first, partners.lengths)", "ids.lengths - first"),
    ("permuted_lm", "(ids.offsets[:-1] - head, counts)", "(ids.offsets[:-1] - 1, counts)"),
    ("permuted_lm", "ranks[order] = 1 + np", "ranks[order] = np"),
    ("prefix_lm", "below(drawn, longest.astype", "below(drawn, (longest - 1).astype"),
    ("replaced_token_detection", "reorder(keys, counts, ORDERS)", "reorder(keys, counts - 1, ORDERS)"),
    ("replaced_token_detection", "counts[self.vocabulary.replaceable]", "counts[: len(self.vocabulary.replaceable)]"),
    ("sentence_comparison", "first + 2 < starts", "first + 1 < starts"),
    ("sentence_order_prediction", "lengths[swapped, ::-1]", "lengths[swapped]"),
    ("span_boundary", "(first, positions.offsets)", '(first, positions.offsets, "right")'),
    ("span_corruption", "self._sentinels[marks]", "self._sentinels[marks - 1]"),
    ("span_corruption", "lengths - noise + 1)", "lengths - noise)"),
    ("text_infilling", "np.minimum(kept + 1, noise)", "np.minimum(kept, noise)"),
    ("text_to_text", "targets >= self.options.target_length", "targets > self.options.target_length"),
    ("token_deletion", "np.maximum(lengths - 1, 0))", "lengths)"),
    ("token_reordering", "swap_identities(permute(*row))", "permute(*row)"),
    ("translation_lm", "in (starts, lengths, languages)", "in (starts, lengths)"),
    ("whole_word_masking", " | run_starts(flat_positions.values)", ""),
]  # fmt: skip

# A line of what they share: file, old, new, test.
OF_KERNELS = [
    ("pipeline/kernels/rates.py", "(n * ppm + MILLION // 2)", "(n * ppm)", RATES),
    ("pipeline/kernels/rates.py", "counts = np.maximum(1, (2000", "counts = np.maximum(2, (2000", RATES),
    ("pipeline/kernels/sampling.py", "bits.partition(largest - 1, axis=1)", "pass", KERNELS),
    ("pipeline/kernels/sampling.py", " * mean_times.values.take(positions)", "", KERNELS),
    ("pipeline/kernels/sampling.py", "choose(keys, kept + 1, counts", "choose(keys, kept, counts", KERNELS),
    ("pipeline/kernels/sampling.py", "np.flatnonzero(changed & ~masked)", "np.flatnonzero(changed)", MASKED),
    ("clozeline/seeding.py", '"<I", variant', '"<I", 0', MASKED),
    ("pipeline/corrupt/objectives/_masked_rows.py", "flat_positions if maskable is None else maskable[flat_positions]",
     "flat_positions", MASKED),
    ("pipeline/corrupt/objectives/_masked_rows.py", "(np.diff(positions) < 1)", "(np.diff(positions) < 0)",
     OBJECTIVES + "refusals.py"),
    ("pipeline/corrupt/objectives/_masked_pairs.py", "flat_positions >= np.repeat", "flat_positions > np.repeat",
     OBJECTIVES + "masked_pairs.py"),
    ("pipeline/corrupt/objectives/_denoising.py",
     "row = int(np.searchsorted(ids.offsets, position, side=\"right\")) - 1",
     "row = int(np.searchsorted(ids.offsets, position)) - 1", OBJECTIVES + "denoising.py"),
    ("pipeline/corrupt/objectives/_denoising.py", "np.maximum(2, count_at_rate(lengths, rate))",
     "count_at_rate(lengths, rate)", OBJECTIVES + "sentence_reordering.py"),
    ("pipeline/kernels/whole_words.py", "words.lengths[word] <= np", "words.lengths[word] < np", WORDS),
    ("pipeline/kernels/spans.py", "np.minimum(drawn, total - before)[used]", "drawn[used]", INFILLING),
    ("pipeline/kernels/distributions.py", "int(total * 2**32)", "int(total * 2**31)", INFILLING),
    ("pipeline/group/groupings/packed.py", "np.diff(offsets)\n", "np.diff(offsets) - 1\n", GROUPINGS + "packed.py"),
    ("pipeline/group/groupings/document.py", "long = limit < end", "long = limit <= end", GROUPINGS + "document.py"),
    ("pipeline/group/groupings/sentence_pair.py", "other & (usable > 0)", "(usable > 0)", PAIRS),
    ("pipeline/group/groupings/parallel.py", "half = lengths // 2", "half = lengths", GROUPINGS + "parallel.py"),
    ("model/layers/masks.py", "earlier = positions <= positions", "earlier = positions < positions",
     "tests/model/layers/test_masks.py"),
    ("model/layers/masks.py", "(mode == 2) & earlier.T", "(mode == 2) & earlier", COLLATE),
    ("train/data/stream/labels.py", "starts[inside] - 1]", "starts[inside]]", COLLATE),
    ("train/data/stream/labels.py", "np.maximum(lengths - 1, 0)]", "np.maximum(lengths - 2, 0)]",
     "tests/train/data/stream/test_language_tokens.py"),
    ("train/data/stream/labels.py", "columns >= first[:, None]", "columns > first[:, None]", COLLATE),
]  # fmt: skip
MUTATIONS = [
    (f"pipeline/corrupt/objectives/{name}.py", old, new, f"{OBJECTIVES}{name}.py") for name, old, new in OF_OBJECTIVES
] + OF_KERNELS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages and their tests, which may be broken."""
    folder = tmp_path_factory.mktemp("mutations")
    for name in ("clozeline", "pipeline", "model", "train", "tools", "configs", "tests"):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def run(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    # No compiled files: the next mutation may have the same size and second.
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "--noconftest", "-p", "no:cacheprovider", *tests]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=900
    )


def test_mutations_are_of_objectives_that_exist() -> None:
    files = {path.stem for path in (ROOT / "pipeline/corrupt/objectives").glob("[!_]*.py")}
    assert {name for name, _, _ in OF_OBJECTIVES} <= files


def test_nothing_fails_in_the_copy_as_it_is(copy: Path) -> None:
    done = run(copy, sorted({test for *_, test in MUTATIONS}))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("file", "old", "new", "test"), MUTATIONS)
def test_a_broken_line_is_noticed(copy: Path, file: str, old: str, new: str, test: str) -> None:
    path = copy / file
    source = path.read_text(encoding="utf-8")
    assert source.count(old) == 1, f"{file} has {source.count(old)} places {old!r}; expected one"
    path.write_text(source.replace(old, new), encoding="utf-8")
    try:
        done = run(copy, [test])
    finally:
        path.write_text(source, encoding="utf-8")
    assert done.returncode == FAILED, done.stdout[-2000:]
