from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.seeding import fraction
from pipeline.splits import is_heldout
from pipeline.train_tokenizer import sample as sampling
from pipeline.train_tokenizer.sample import choose_sample
from tests.pipeline.encode import encode_passes as passes

COUNT = 60


def parts_of(folder: Path, documents, parts: int) -> list[Path]:
    passes.write_parts(folder, documents, parts)
    return [folder / "documents" / f"{part:06d}.arrow" for part in range(parts)]


def expected(probability: float, heldout: float = passes.HELDOUT) -> list[str]:
    """Texts of the sample by its definition, in order of uid."""
    chosen = [
        document
        for document in passes.documents(COUNT)
        if not is_heldout(document.uid, heldout, passes.SEED)
        and fraction(document.uid, "tokenizer", passes.SEED) < probability
    ]
    return [document.text for document in sorted(chosen, key=lambda document: document.uid)]


def test_the_sample_leaves_held_out_documents_out_and_is_sorted_by_uid(tmp_path):
    parts = parts_of(tmp_path / "clean", passes.documents(COUNT), 3)
    sample = choose_sample(parts, 10**9, passes.HELDOUT, passes.SEED, tmp_path)
    texts = list(sample.texts())
    assert texts == expected(1.0)
    assert (sample.documents, sample.over_budget) == (len(texts), 0)
    assert sample.held_out == COUNT - len(texts) > 0
    assert sample.bytes == sum(len(text.encode()) for text in texts)


@pytest.mark.parametrize("buckets", [1, 4096])
def test_a_budget_chooses_by_uid_whatever_the_parts(tmp_path, monkeypatch, buckets):
    monkeypatch.setattr(sampling, "_BUCKET_BYTES", buckets)
    whole = sum(len(text.encode()) for text in expected(1.0))
    for number in (1, 3, 7):
        folder = tmp_path / str(number)
        parts = parts_of(folder, passes.documents(COUNT), number)
        sample = choose_sample(parts, whole // 2, passes.HELDOUT, passes.SEED, folder)
        assert list(sample.texts()) == expected((whole // 2) / whole)
        assert 0.25 < sample.bytes / whole < 0.75
        assert len(sample.files) > 1


def test_both_sides_of_a_pair_count_and_are_given(tmp_path):
    found = [
        document.having(target_text="ü" * 50 if place % 3 else None)
        for place, document in enumerate(passes.documents(9))
    ]
    parts = parts_of(tmp_path / "clean", found, 2)
    sample = choose_sample(parts, 10**9, 0.0, passes.SEED, tmp_path)
    wanted = sorted(
        (document.uid, side) for document in found for side in (document.text, document.target_text) if side
    )
    assert list(sample.texts()) == [text for _, text in wanted]
    assert sample.bytes == sum(len(text.encode()) for _, text in wanted)
    assert (sample.documents, sample.held_out) == (9, 0)


def test_no_documents_give_no_text(tmp_path):
    sample = choose_sample(parts_of(tmp_path / "clean", [], 1), 100, 0.0, passes.SEED, tmp_path)
    assert (list(sample.texts()), sample.documents, sample.bytes) == ([], 0, 0)
