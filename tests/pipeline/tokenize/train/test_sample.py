from dataclasses import replace

import pytest

from clozeline.pipeline.execution import shuffle
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.pipeline.tokenize.train import sample as sampling
from clozeline.pipeline.tokenize.train.sample import read_sample
from clozeline.seeding import fraction
from tests.pipeline.tokenize.encode import encode_passes as passes
from tests.pipeline.unit_runs import stage_in

COUNT = 60


def draw_sample(folder, documents, parts, budget, heldout, alpha=1.0):
    """Return the texts of the sample, in order, and the counts."""
    source = passes.write_parts(folder, documents, parts)
    *sampling, training = passes.training(source, heldout, sample_bytes=budget, alpha=alpha)
    stage = stage_in(folder, documents=folder)
    counts = passes.run_passes(stage, sampling, reversed)
    assert counts["measured"] == counts["documents_in"] == len(documents)
    texts = training.units["000000"].texts
    return [*read_sample(UnitInputs(stage.find_folder), texts, counts["sample"]["bytes"])], counts


def expected(probability):
    """Texts of the sample by its definition, in order of uid."""
    kept = [
        one
        for one in passes.documents(COUNT)
        if not is_heldout(one.uid, passes.HELDOUT, passes.SEED)
    ]

    chosen = [one for one in kept if fraction(one.uid, "tokenizer", passes.SEED) < probability]
    return [document.text for document in sorted(chosen, key=lambda document: document.uid)]


@pytest.mark.parametrize("size", [1, 4096])
def test_a_budget_chooses_by_uid_whatever_the_parts(tmp_path, monkeypatch, size):
    monkeypatch.setattr(sampling, "_RANGE_BYTES", size)
    monkeypatch.setattr(shuffle, "_BUNDLED_OPENS", 7)
    whole = sum(len(text.encode()) for text in expected(1.0))

    for number in (1, 3, 7):
        texts, counts = draw_sample(
            tmp_path / str(number), passes.documents(COUNT), number, whole // 2, passes.HELDOUT
        )
        assert texts == expected((whole // 2) / whole)
        assert 0.25 < counts["sample"]["bytes"] / whole < 0.75
        files = list((tmp_path / str(number)).glob("tmp/sample/*.pieces"))
        assert len(files) == number
        if number == 1 and size > 1:  # compressed
            assert files[0].stat().st_size < 0.8 * counts["sample"]["bytes"]


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

    texts, counts = draw_sample(tmp_path, found, 3, budget, 0.2, alpha)
    sample = counts["sample"]

    assert texts == wanted
    assert counts["available"] == available
    assert sample["documents"] == chosen
    assert counts["skipped"] == {"over_budget": len(kept) - chosen, "held_out": 240 - len(kept)}
    size = sum(len(text.encode()) for text in wanted)
    assert sum(sample["languages"].values()) == sample["bytes"] == size

    if alpha < 1 and part == 0.4:
        assert sample["languages"]["sw"] / size > 2 * available["sw"] / sum(available.values())


def test_both_sides_of_a_pair_count_and_are_given(tmp_path):
    documents = passes.documents(9)
    found = [
        one.replace(target_text="ü" * 50 if place % 3 else None)
        for place, one in enumerate(documents)
    ]
    texts, counts = draw_sample(tmp_path, found, 2, 10**9, 0.0)
    wanted = sorted(
        (one.uid, side) for one in found for side in (one.text, one.target_text) if side
    )

    assert texts == [text for _, text in wanted]
    assert counts["sample"]["bytes"] == sum(len(text.encode()) for _, text in wanted)
    assert (counts["sample"]["documents"], counts["skipped"]["held_out"]) == (9, 0)
    assert counts["sample"]["languages"].keys() == {"de-und", "en", "zh-und"}
