"""Sequences of tags against all of them."""

import itertools

import pytest
import torch

from clozeline.extensions.tasks.heads._tags import bio_transitions, viterbi
from tests.refusals import refused

LABELS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def best_of_all(scores, first, between):
    """The best of all sequences.

    Of equal ones that with the lower last tag, then the lower last but one.
    """
    found = None

    for tags in itertools.product(range(scores.shape[1]), repeat=len(scores)):
        total = first[tags[0]] + scores[0, tags[0]]
        for place in range(1, len(tags)):
            total = total + between[tags[place - 1], tags[place]] + scores[place, tags[place]]
        key = (-total.item(), tags[::-1])
        found = key if found is None or key < found else found

    return list(found[1][::-1])


def legal(tags):
    """Return whether each I follows a B or an I of its kind."""
    names = ["O", *(LABELS[tag] for tag in tags)]
    pairs = itertools.pairwise(names)
    return all(now[0] != "I" or before in (now, now.replace("I-", "B-")) for before, now in pairs)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("kind", ["bio", "any"])
def test_the_best_sequence_is_that_of_all(ties, kind):
    """Whole numbers up to two give many equal sums, of which the rule of the docstring chooses."""
    draw = torch.Generator().manual_seed(1)

    for _ in range(30):
        if ties:
            scores = torch.randint(0, 3, (1, 4, 5), generator=draw).double()
            loose = torch.randint(0, 2, (6, 5), generator=draw)
        else:
            scores = torch.randn(1, 4, 5, generator=draw).double()
            loose = torch.randn(6, 5, generator=draw)

        first, between = (
            bio_transitions(LABELS) if kind == "bio" else (loose[0].double(), loose[1:].double())
        )
        found = viterbi(scores, torch.tensor([4]), first, between)[0].tolist()

        assert found == best_of_all(scores[0], first, between)


def test_no_sequence_breaks_the_rules():
    first, between = bio_transitions(LABELS)
    scores = torch.randn(200, 7, 5, generator=torch.Generator().manual_seed(2))
    plain = scores.argmax(-1).tolist()

    assert not all(map(legal, plain))

    found = viterbi(scores, torch.full((200,), 7), first, between).tolist()

    assert all(map(legal, found))

    kept = [row for row, tags in enumerate(plain) if legal(tags)]

    assert [found[row] for row in kept] == [plain[row] for row in kept]


def test_a_row_is_decoded_as_if_it_were_alone():
    first, between = bio_transitions(LABELS)
    scores = torch.randn(4, 6, 5, generator=torch.Generator().manual_seed(3))
    lengths = torch.tensor([6, 1, 4, 2])
    found = viterbi(scores, lengths, first, between)
    for row, length in enumerate(lengths.tolist()):
        alone = viterbi(scores[row : row + 1, :length], torch.tensor([length]), first, between)[0]
        assert found[row].tolist() == [*alone.tolist(), *[-100] * (6 - length)]


def test_an_inside_without_its_begin_is_refused():
    with refused("I-LOC needs B-LOC"):
        bio_transitions(["O", "I-LOC", "B-PER"])
