"""Denoising pairs: each noise against a plain loop and its law, the frame around it, and
contradictions."""

from itertools import pairwise, permutations
from operator import itemgetter

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.corrupt.objectives._denoising import DenoisingPair
from clozeline.pipeline.kernels.distributions import poisson_thresholds
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.seeding import LENGTHS, ORDERS, POSITIONS, SLOTS
from tests.pipeline.corrupt.objectives.runner import corrupt, keyed, variants_of, wide
from tests.pipeline.corruption_cases import EOS, MASK, WORDS, samples
from tests.pipeline.laws import chi_square_is_plausible, within_sigmas
from tests.pipeline.word_cases import drawn, smallest

NAMES = [
    name
    for name in OBJECTIVES.available()
    if issubclass(OBJECTIVES.load_class(name), DenoisingPair)
]
HEADS = {"none": [], "bos": [4], "cls": [1]}


def slow_masks(ids, key, percent):
    k = max(1, (len(ids) * percent + 50) // 100)
    noise = sorted(smallest(key, POSITIONS, len(ids), k))
    return [MASK if place in noise else token for place, token in enumerate(ids)], {
        "noise_positions": noise
    }


def slow_deletion(ids, key, percent):
    k = min(len(ids) - 1, max(1, (len(ids) * percent + 50) // 100))
    kept = sorted(smallest(key, POSITIONS, len(ids), len(ids))[k:])
    return [ids[place] for place in kept], {"kept_positions": kept}


def slow_rotation(ids, key, percent):
    rotation = 1 + (((drawn(key, ORDERS, 1)[0] >> 32) * (len(ids) - 1)) >> 32)
    return [*ids[rotation:], *ids[:rotation]], {"rotation": [rotation]}


def slow_order(ids, key, percent):
    moving = max(2, (len(ids) * percent + 50) // 100)
    order = list(range(len(ids)))
    places = order if percent == 100 else sorted(smallest(key, POSITIONS, len(ids), moving))
    order = dict(zip(order, order, strict=True)) | {
        place: places[source]
        for place, source in zip(places, smallest(key, ORDERS, moving, moving), strict=True)
    }
    if all(place == source for place, source in order.items()):
        first, second = places[:2]
        order[first] = second
        order[second] = first

    return [ids[source] for source in order.values()], {"token_order": [*order.values()]}


@pytest.mark.parametrize(
    ("name", "option", "loop", "percents"),
    [
        ("denoising_autoencoding", "mask_rate", slow_masks, (15, 100)),
        ("token_deletion", "noise_density", slow_deletion, (15, 100)),
        ("document_rotation", None, slow_rotation, (100,)),
        ("token_reordering", "noise_density", slow_order, (15, 50, 100)),
    ],
)
def test_equals_a_plain_loop(name, option, loop, percents):
    for percent in percents:
        objective = wide(name, **({option: percent / 100} if option else {}))
        for key, sample, example in keyed(objective, samples([2, 3, 4, 5, 17, 64, 300, 568] * 20)):
            ids = sample["ids"].tolist()
            found, noise = loop(ids, key, percent)
            assert example["input_ids"].tolist() == [4, *found, 5]
            assert example["target_ids"].tolist() == [*ids, 5]
            assert {column: example[column].tolist() for column in noise} == noise


# Sentences
# --------------------------------------------------------------------------------------------------


def test_five_orders_of_three_sentences_are_equally_likely():
    examples = variants_of(wide("sentence_reordering"), [300, 301, 302], [0, 1, 2], count=5000)
    orders = [tuple(example["sentence_order"].tolist()) for example in examples]
    every = list(permutations(range(3)))[1:]
    assert chi_square_is_plausible([orders.count(order) for order in every], np.full(5, 1000.0), 4)


# Frame and contradictions
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", NAMES)
def test_frames_stand_around_the_noise_and_the_original(name, head):
    objective = build_objective(
        {"name": name, "max_length": 64, "source_head": head, "decoder_start": "cls"}, WORDS
    )

    assert objective.form.decoder_start == WORDS.specials["cls"]
    assert objective.content_length == 63 - len(HEADS[head])

    rows = samples([2, 3, 17, objective.content_length] * 20, sentences=2)
    for sample, example in zip(rows, corrupt(objective, rows), strict=True):
        row = example["input_ids"].tolist()
        target = example["target_ids"].tolist()
        assert target == [*sample["ids"].tolist(), EOS]
        assert (row[: len(HEADS[head])], row[-1]) == (HEADS[head], EOS)
        assert objective.restore(example).tolist() == [*HEADS[head], *target]


# Text infilling
# --------------------------------------------------------------------------------------------------


def fitted(lengths, most):
    """At most `most` lengths: zero ones go, last first; then the last two are merged."""
    while len(lengths) > most and 0 in lengths:
        del lengths[len(lengths) - 1 - lengths[::-1].index(0)]
    while len(lengths) > most:
        lengths[-2:] = [sum(lengths[-2:])]
    return lengths


def slow_spans(units, key, ppm, table):
    """Start and length of each span, in units, and the number of its draw."""
    k = min(max(1, units - 1), max(1, (units * ppm + 500_000) // 1_000_000))
    lengths = []

    for word in drawn(key, LENGTHS, 2000):
        if sum(lengths) >= k:
            break
        lengths.append(min(sum((word >> 32) >= bound for bound in table), k - sum(lengths)))

    lengths = fitted(lengths, min(units - k + 1, k))
    order = smallest(key, ORDERS, len(lengths), len(lengths))
    chosen = sorted(smallest(key, SLOTS, units - k + 1, len(lengths)))
    before = 0
    found = []
    for gap, place in zip(chosen, order, strict=True):
        found.append((gap + before, lengths[place], place))
        before += lengths[place]

    return found


def words_of(ids, longest):
    """Where words start, and the end; a word with more than so many tokens is as many words."""
    starts = [place for place, token in enumerate(ids) if place == 0 or token % 3 == 0]
    bounds = pairwise([*starts, len(ids)])
    split = [range(first, last) if last - first > longest else [first] for first, last in bounds]
    return [place for word in split for place in word] + [len(ids)]


def fitted_to_tokens(spans, tokens, end):
    """Start and length of spans that are cut or grow until they have so many tokens, in the order
    of their draws."""
    left = tokens
    sizes = {}

    for start, length, _ in sorted(spans, key=itemgetter(2)):
        sizes[start] = min(length, left)
        left -= sizes[start]
        if length and not sizes[start]:
            del sizes[start]

    for start, _, _ in sorted(spans, key=itemgetter(2)):
        if sizes.get(start):
            after = min((other - 1 for other in sizes if other > start), default=end)
            more = min(left, after - start - sizes[start])
            sizes[start] += more
            left -= more

    return sorted(sizes.items())


def infilled(ids, spans):
    place = 0
    out = [4]
    for start, length in spans:
        out += [*ids[place:start], MASK]
        place = start + length

    return [*out, *ids[place:], 5]


@pytest.mark.parametrize(
    ("rate", "mean", "unit"),
    [
        (0.3, 3.0, "token"),
        (0.05, 3.0, "token"),
        (1.0, 3.0, "token"),
        (0.3, 1.25, "token"),
        (0.3, 3.0, "word"),
    ],
)
def test_infilled_spans_equal_a_plain_loop(rate, mean, unit):
    objective = wide("text_infilling", noise_density=rate, poisson_lambda=mean, unit=unit)
    table = poisson_thresholds(int(1000 * mean)).tolist()
    rows = samples([1 + (41 * row) % 120 for row in range(300)] + [510] * 3)
    for key, sample, example in keyed(objective, rows):
        ids = sample["ids"].tolist()
        tokens = min(max(1, len(ids) - 1), max(1, int(rate * len(ids) + 0.5)))
        starts = list(range(len(ids) + 1)) if unit == "token" else words_of(ids, tokens)
        drawn_spans = slow_spans(len(starts) - 1, key, int(rate * 1_000_000), table)
        spans = [
            (starts[first], starts[first + size] - starts[first], place)
            for first, size, place in drawn_spans
        ]
        spans = fitted_to_tokens(spans, tokens, len(ids))

        assert sum(length for _, length in spans) <= tokens
        assert (
            list(
                zip(example["span_starts"].tolist(), example["span_lengths"].tolist(), strict=True)
            )
            == spans
        )
        assert example["input_ids"].tolist() == infilled(ids, spans)
        assert example["target_ids"].tolist() == [*ids, 5]
        assert objective.restore(example).tolist() == [4, *ids, 5]
        assert all(length + start < after for (start, length), (after, _) in pairwise(spans)), (
            "each has its own gap"
        )
        assert len(example["input_ids"]) <= len(ids) + 2


def test_random_ids_stand_for_some_spans():
    examples = corrupt(wide("text_infilling", random_share=0.1), samples([510] * 200))
    spans = len(examples.columns["span_starts"].values)
    ids = examples.columns["input_ids"].values
    assert within_sigmas(int((ids == MASK).sum()), spans, 0.9)
    assert int(ids.min()) >= MASK
