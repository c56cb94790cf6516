"""Filled masks against a toy whose joint distribution is known, and against a plain loop over a
model."""

import itertools
import math
from collections import Counter

import pytest
import torch

from clozeline.errors import BatchError
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.unmask import unmask, unmask_with
from tests.model.generation.test_generate import tensors_of
from tests.model.small_models import built
from tests.refusals import refused

V = 3
LENGTH = 3
MASK = 3
TEXTS = list(itertools.product(range(V), repeat=LENGTH))
# strongly dependent positions: the product of the marginals is far from it
WEIGHTS = {
    text: 1 + 40 * (text[0] == text[1]) + 15 * (text[1] != text[2]) + text[2] for text in TEXTS
}
JOINT = {text: weight / sum(WEIGHTS.values()) for text, weight in WEIGHTS.items()}


def conditional(row, position):
    """The exact distribution of one position given the tokens that are no masks."""
    fits = [
        text for text in TEXTS if all(token in (MASK, text[at]) for at, token in enumerate(row))
    ]
    masses = [sum(JOINT[text] for text in fits if text[position] == token) for token in range(V)]
    return [mass / sum(masses) for mass in masses]


def predict(rows, masks):
    never = [9.0]  # the mask itself: the most probable token, but banned
    return [
        torch.tensor(
            [[math.log(each) for each in conditional(row, at)] + never for at in positions]
        )
        for row, positions in zip(rows, masks, strict=True)
    ]


def sampler_distribution(shares):
    """The exact distribution of a sampler that fills random masks, `shares` of them at a step, by
    enumeration."""
    total = Counter()

    for order in itertools.permutations(range(LENGTH)):
        for text in TEXTS:
            row = [MASK] * LENGTH
            probability = 1 / math.factorial(LENGTH)
            first = 0

            for share in shares:
                step = order[first : first + share]
                probability *= math.prod(conditional(row, at)[text[at]] for at in step)
                for at in step:
                    row[at] = text[at]
                first += share

            total[text] += probability

    return total


def frequencies(decoding, rows):
    fillings = unmask_with(predict, [[MASK] * LENGTH] * rows, MASK, decoding)
    return Counter(tuple(filling.ids) for (filling,) in fillings)


def chi_square(counts, expected):
    rows = counts.total()
    return sum(
        (counts[text] - rows * expected[text]) ** 2 / (rows * expected[text]) for text in TEXTS
    )


@pytest.mark.parametrize("shares", [(1, 1, 1), (2, 1), (3,)])
def test_random_order_samples_the_exact_distribution(shares):
    """One mask a step gives the joint distribution, all at once the product of the marginals (arXiv
    2406.07524)."""
    exact = sampler_distribution(shares)

    assert sum(exact.values()) == pytest.approx(1)

    if len(shares) == LENGTH:
        assert exact == pytest.approx(JOINT)
    counts = frequencies(
        Decoding(mode="unmask", order="random", temperature=1.0, steps=len(shares), seed=3), 1200
    )

    assert chi_square(counts, exact) < 54  # 26 degrees of freedom: p = 0.001

    if len(shares) < LENGTH:
        assert chi_square(counts, JOINT) > 80


def test_a_wide_beam_finds_the_best_of_all_fillings():
    """Each filling is scored along the order of its most certain masks."""
    (found,) = unmask_with(
        predict, [[MASK] * LENGTH], MASK, Decoding(mode="unmask", width=V**LENGTH)
    )

    assert sorted(tuple(each.ids) for each in found) == TEXTS
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)

    for each in found:  # the conditionals are consistent: any order gives the joint distribution
        assert each.score == pytest.approx(math.log(JOINT[tuple(each.ids)]), abs=1e-5)
    (kept,) = unmask_with(
        predict,
        [[MASK] * LENGTH],
        MASK,
        Decoding(mode="unmask", width=2),
    )

    assert len(kept) == 2


def test_a_row_does_not_depend_on_those_behind_it():
    decoding = Decoding(mode="unmask", temperature=1.3, steps=2, seed=7)
    rows = [
        [MASK] * LENGTH,
        [0, MASK, 2],
        [MASK, MASK, 1],
        [0, 0, 0],
    ]
    together = unmask_with(predict, rows, MASK, decoding)

    assert together == [
        unmask_with(predict, rows[: n + 1], MASK, decoding)[n] for n in range(len(rows))
    ]
    assert together[3][0].filled == []


def test_a_model_fills_as_a_plain_loop_does():
    model = built("encoder", init={"std": 0.5}).eval()
    mask = 4
    banned = {0, 1, 2, 3}
    rows = [[1, 9, mask, 11, mask, mask, 2], [1, mask, 20, 2]]
    wanted = []

    for row in rows:
        filled = list(row)
        while mask in filled:
            with torch.no_grad():
                logits = model.logits(tensors_of(filled, ""))["masked_lm"][0]
            logits[:, [mask, *banned]] = -torch.inf
            best = logits.softmax(-1).max(-1)
            at = max(
                (at for at, token in enumerate(filled) if token == mask),
                key=lambda at: float(best.values[at]),
            )
            filled[at] = int(best.indices[at])

        wanted.append(filled)

    found = unmask(model, rows, mask, Decoding(mode="unmask"), banned=banned)

    assert [filling.ids for (filling,) in found] == wanted


def test_what_cannot_be_filled_is_refused():
    with refused("mode=unmask, got mode=greedy"):
        unmask_with(predict, [[MASK]], MASK, Decoding())
    with pytest.raises(BatchError, match="row 0: no token has a finite score"):
        unmask_with(
            predict,
            [[MASK, 0, 0]],
            MASK,
            Decoding(mode="unmask"),
            banned=range(V),
        )
    with refused(r"need an? (head|encoder)"):
        unmask(built("decoder").eval(), [[1, 4]], 4, Decoding(mode="unmask"))
