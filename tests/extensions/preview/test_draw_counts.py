"""Counts of many draws, against one draw after another."""

from collections import Counter

import pytest

from clozeline.extensions.preview import corrupt_text
from clozeline.extensions.preview.draw_counts import count_draws
from tests.refusals import refused

TEXT = "The kitten is chasing the ball. It rolls away. Then it stops."
DRAWS = 200


def counts_of(name, **options):
    found = corrupt_text({"name": name, **options}, TEXT)
    return {one.name: one for one in count_draws(found, DRAWS)}


def test_labels_are_counted_as_one_by_one():
    counts = counts_of("masked_lm", mask_rate=0.4)
    seen = Counter()
    for variant in range(DRAWS):
        drawn = corrupt_text({"name": "masked_lm", "mask_rate": 0.4}, TEXT, variant=variant)
        words = drawn.codec.words(drawn.example["input_ids"].tolist())
        labels = drawn.codec.words(drawn.example["label_ids"].tolist())
        for position, label in zip(drawn.example["label_positions"], labels, strict=True):
            word = words[position]
            seen["masked" if word == "[MASK]" else "kept" if word == label else "replaced"] += 1

    assert {name: counts[name].count for name in seen} == seen
    assert counts["tokens with a label"].count == sum(seen.values()) == 6 * DRAWS
    # one of 22 different words, 9 of them of the other document, is the original; labels are independent, so errors are binomial
    words = 22
    expected = {"masked": 0.8, "replaced": 0.1 * (1 - 1 / words), "kept": 0.1 + 0.1 / words}
    for name, share in expected.items():
        binomial = (share * (1 - share) / (6 * DRAWS)) ** 0.5
        assert counts[name].expected == pytest.approx(share, abs=0.002)
        assert counts[name].error == pytest.approx(binomial, rel=0.25)
        assert abs(counts[name].share - share) < 4 * binomial


def test_spans_and_outcomes_are_counted_as_one_by_one():
    options = {"noise_density": 0.4, "input_length": 64}
    counts = counts_of("span_corruption", **options)
    examples = [
        corrupt_text({"name": "span_corruption", **options}, TEXT, variant=variant)
        for variant in range(DRAWS)
    ]
    targets = " ".join(
        " ".join(one.codec.words(one.example["target_ids"].tolist())) for one in examples
    ).split()
    spans = sum(word.startswith("<extra_") for word in targets)

    assert counts["tokens in spans"].count == len(targets) - spans - DRAWS
    assert counts["mean length of a span"].total == spans

    counts = counts_of("document_rotation")
    starts = Counter(
        int(corrupt_text("document_rotation", TEXT, variant=variant).example["rotation"][0]) + 1
        for variant in range(DRAWS)
    )
    assert {int(name.split()[-1]): one.count for name, one in counts.items()} == starts
    assert [one.expected for one in counts.values()] == pytest.approx([1 / 14] * 14)


def test_a_capped_span_is_never_longer():
    for seed in range(20):
        options = {"name": "span_corruption", "noise_density": 0.5, "max_span_length": 2}
        found = corrupt_text({**options, "input_length": 64}, TEXT, seed=seed)
        words = found.codec.words(found.example["target_ids"].tolist())[:-1]
        sizes = [len(part.split()) - 1 for part in " ".join(words).split("<extra_")[1:]]
        assert max(sizes) <= 2
        assert sum(sizes) == 8  # half of 15, rounded up


def test_a_chosen_corruption_is_not_counted():
    found = corrupt_text("masked_lm", TEXT, choose=[3])
    with refused("leave out `choose`"):
        count_draws(found, DRAWS)
    with refused("nothing that can be counted"):
        count_draws(corrupt_text("causal_lm", TEXT), DRAWS)
