from dataclasses import replace

import pytest

from clozeline.pipeline.shards.layout import is_heldout
from clozeline.pipeline.tokenize.train import sample as sampling
from clozeline.pipeline.tokenize.train.sample import choose_sample
from clozeline.seeding import fraction
from tests.pipeline.tokenize.encode import encode_passes as passes

COUNT = 60


def parts_of(folder, documents, parts):
    passes.write_parts(folder, documents, parts)
    return [folder / "documents" / f"{part:06d}.arrow" for part in range(parts)]


def expected(probability):
    """Texts of the sample by its definition, in order of uid."""
    kept = [
        one
        for one in passes.documents(COUNT)
        if not is_heldout(one.uid, passes.HELDOUT, passes.SEED)
    ]

    chosen = [one for one in kept if fraction(one.uid, "tokenizer", passes.SEED) < probability]
    return [document.text for document in sorted(chosen, key=lambda document: document.uid)]


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


def slow_copies(available, budget, alpha):
    """Copies of a text by the law of XLM: shares of n ** alpha, of the budget or of what there
    is."""
    size = min(budget, sum(available.values()))
    total = sum(number**alpha for number in available.values())
    return {
        name: min(4.0, size * number**alpha / total / number) for name, number in available.items()
    }


@pytest.mark.parametrize("part", [0.4, 1, 9])
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_languages_have_shares_by_a_power_of_their_bytes(tmp_path, alpha, part):
    languages = ["en"] * 20 + ["de"] * 9 + ["sw"]
    found = [
        replace(document, language=languages[place % 30])
        for place, document in enumerate(passes.documents(240))
    ]
    kept = [document for document in found if not is_heldout(document.uid, 0.2, passes.SEED)]
    available = dict.fromkeys(("en", "de", "sw"), 0)
    for one in kept:
        available[one.language] += len(one.text.encode())
    budget = int(part * sum(available.values()))
    copies = slow_copies(available, budget, alpha)
    wanted = []
    chosen = 0

    for document in sorted(kept, key=lambda document: document.uid):
        whole = int(copies[document.language])
        count = whole + (
            fraction(document.uid, "tokenizer", passes.SEED) < copies[document.language] - whole
        )
        wanted += [document.text] * count
        chosen += count > 0

    sample = choose_sample(parts_of(tmp_path, found, 3), budget, 0.2, passes.SEED, tmp_path, alpha)

    assert list(sample.texts()) == wanted
    assert (sample.documents, sample.over_budget, sample.held_out) == (
        chosen,
        len(kept) - chosen,
        240 - len(kept),
    )
    assert (
        sum(sample.languages.values()) == sample.bytes == sum(len(text.encode()) for text in wanted)
    )

    if alpha < 1 and part == 0.4:
        assert sample.languages["sw"] / sample.bytes > 2 * available["sw"] / sum(available.values())


def test_both_sides_of_a_pair_count_and_are_given(tmp_path):
    documents = passes.documents(9)
    found = [
        one.replace(target_text="ü" * 50 if place % 3 else None)
        for place, one in enumerate(documents)
    ]
    sample = choose_sample(
        parts_of(tmp_path / "clean", found, 2), 10**9, 0.0, passes.SEED, tmp_path
    )
    wanted = sorted(
        (one.uid, side) for one in found for side in (one.text, one.target_text) if side
    )

    assert list(sample.texts()) == [text for _, text in wanted]
    assert sample.bytes == sum(len(text.encode()) for _, text in wanted)
    assert (sample.documents, sample.held_out) == (9, 0)
    assert sample.languages.keys() == {"de-und", "en", "zh-und"}
