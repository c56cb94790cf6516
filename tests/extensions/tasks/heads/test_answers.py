"""Spans against all pairs of places."""

import pytest
import torch

from clozeline.extensions.tasks.heads._answers import Answers, best_spans, read_answers

INF = torch.inf


def best_of_all(starts, ends, longest):
    """The best of all pairs; of equal ones that with the earlier end, then the shorter one."""
    found = None

    for last in range(len(ends)):
        for first in range(last, max(-1, last - longest), -1):
            if found is None or starts[first] + ends[last] > found[0]:
                found = starts[first] + ends[last], first, last

    return found


@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize("longest", [None, 1, 2, 3, 9, 20])
def test_the_best_span_is_that_of_all_pairs(longest, ties):
    draw = torch.Generator().manual_seed(4)
    shape = (60, 9)
    starts, ends = (
        (
            torch.randint(0, 3, shape, generator=draw)
            if ties
            else torch.randn(shape, generator=draw)
        ).double()
        for _ in range(2)
    )

    starts[torch.rand(shape, generator=draw) < 0.3] = -INF
    found = zip(*(part.tolist() for part in best_spans(starts, ends, longest)), strict=True)
    for row, answer in enumerate(found):
        if starts[row].isfinite().any():
            assert answer == best_of_all(starts[row].tolist(), ends[row].tolist(), longest or 9), (
                row
            )


def test_places_that_are_not_allowed_never_answer():
    scores = torch.randn(40, 9, 2, generator=torch.Generator().manual_seed(5))
    allowed = torch.rand(40, 9, generator=torch.Generator().manual_seed(6)) < 0.5
    allowed[:, 0] = True  # [CLS], the null place, which is no answer
    allowed[7] = False
    found = read_answers(scores, allowed, torch.zeros(40, dtype=torch.int64), longest=3)

    for row in range(40):
        text = [place for place in range(1, 9) if allowed[row, place]]
        if not text:
            assert found.score[row] == -INF
            continue

        pairs = [(first, last) for first in text for last in text if first <= last < first + 3]
        best = max(scores[row, first, 0] + scores[row, last, 1] for first, last in pairs)

        assert found.score[row] == best
        assert (int(found.first[row]), int(found.last[row])) in pairs
        assert found.null[row] == scores[row, 0].sum()


def test_no_answer_is_the_lowest_of_the_windows():
    """Windows with spans 1.0 and 2.5, and no answer 9.0 and 3.0: the spans of the second are the
    best of both."""
    scores = torch.full((2, 4, 2), -9.0)
    scores[0, 0] = torch.tensor([4.0, 5.0])
    scores[1, 0] = torch.tensor([1.0, 2.0])
    scores[0, 1, 0] = 0.25
    scores[0, 2, 1] = 0.75
    scores[1, 2, 0] = 1.5
    scores[1, 3, 1] = 1.0
    found = read_answers(
        scores,
        torch.ones(2, 4, dtype=torch.bool),
        torch.tensor([0, 0]),
    )

    assert (found.score.tolist(), found.null.tolist()) == ([1.0, 2.5], [9.0, 3.0])
    assert [found.of_question(threshold) for threshold in (0.4, 0.6)] == [None, (1, 2, 3)]


@pytest.mark.parametrize(("null", "answered"), [(2.5, True), (3.0, True), (3.5, False)])
def test_no_answer_has_to_exceed_the_threshold(null, answered):
    """A difference of exactly the threshold leaves the answer, as in the published code of SQuAD
    2.0."""
    found = Answers(
        torch.tensor([2.0]),
        torch.tensor([4]),
        torch.tensor([6]),
        torch.tensor([null]),
    )
    assert found.of_question(threshold=1.0) == ((0, 4, 6) if answered else None)
