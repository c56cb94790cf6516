"""The next global batch, and what ranks learn from each other before a step."""

import time
from types import SimpleNamespace

import pytest
import torch

from clozeline.errors import StorageError
from clozeline.train.data.global_batch import (
    count_positions,
    count_real_tokens,
    next_batch_of_tokens,
    next_global_batch,
)
from clozeline.train.distributed.stopping import Interrupted, StopRequest


class Alone:
    """A world of one rank without a process group."""

    size = 1
    rank = 0

    def sum_over_ranks(self, values):
        return list(values)

    def raise_everywhere(self, error):
        raise error


def micro_batch(weights):
    lengths = torch.arange(1, len(weights) + 1)
    tensors = {
        "row_weight": torch.tensor(weights),
        "lengths": lengths,
        "decoder_lengths": 10 * lengths,
    }

    return SimpleNamespace(tensors=tensors)


def source(read):
    return SimpleNamespace(next_step=read)


ALONE = Alone()


def test_both_rows_of_a_pair_count_and_filler_does_not():
    assert (
        count_real_tokens(
            [
                micro_batch([1.0, 0.0, 1.0]),
                micro_batch([1.0]),
            ]
        )
        == (1 + 3) * 11 + 11
    )


def test_choices_count_if_their_example_does():
    """Three examples of 2, 1 and 3 choices, the second of which is filler."""
    tensors = {
        "row_weight": torch.tensor([1.0, 0.0, 1.0]),
        "choices": torch.tensor([2, 1, 3]),
    }
    batch = SimpleNamespace(tensors=tensors | {"lengths": torch.tensor([1, 2, 4, 8, 16, 32])})
    assert count_real_tokens([batch]) == 1 + 2 + 8 + 16 + 32


def test_both_views_of_a_row_count():
    batch = micro_batch([1.0, 0.0, 1.0])
    del batch.tensors["decoder_lengths"]
    batch.tensors["lengths_b"] = torch.tensor([5, 7, 0])
    assert count_real_tokens([batch]) == 1 + 3 + 5


def test_places_are_those_of_all_id_tensors():
    batch = micro_batch([1.0, 0.0])
    batch.tensors |= {
        "input_ids": torch.zeros(2, 5),
        "decoder_input_ids": torch.zeros(2, 3),
    }
    assert count_positions([batch, batch]) == 2 * 2 * (5 + 3)
    assert next_global_batch(source(lambda: [batch]), {}, ALONE, StopRequest()).padded_tokens == 16


def test_labels_and_tokens_are_summed():
    head = SimpleNamespace(count=lambda tensors: len(tensors["lengths"]))
    batches = [micro_batch([1.0, 1.0]), micro_batch([1.0])]
    found = next_global_batch(
        source(lambda: batches), {"lm": head, "token": head}, ALONE, StopRequest()
    )

    assert (found.counts, found.tokens, found.stop) == (
        {"lm": 3.0, "token": 3.0},
        33 + 11,
        False,
    )
    assert found.micro_batches == batches


@pytest.mark.parametrize(
    ("weights", "weight"),
    [
        ([[1.0, 1.0], [1.0, 1.0]], 1.0),
        ([[1.0, 1.0], [0.0, 0.0]], 1.0),
        ([[0.5, 0.0], [0.0, 0.0]], 0.5),
        ([[0.0, 0.0], [0.0, 0.0]], 0.0),
        ([[1.0] + 15 * [0.0]], 2 / 16),
    ],
)
def test_a_batch_of_few_rows_weighs_less(weights, weight):
    """Rows count from half a batch on as a mean.

    Fewer are weighted as if the other rows of the half were there.
    """
    batches = [micro_batch(each) for each in weights]
    found = next_global_batch(source(lambda: batches), {}, ALONE, StopRequest())
    assert found.weight == weight
    assert found.is_short == (weight < 1)


def test_joined_portions_are_one_batch():
    portions = iter(
        [
            [micro_batch([1.0, 0.0, 0.0, 0.0])],
            [micro_batch([1.0, 1.0, 1.0, 1.0])],
        ]
    )
    found = next_batch_of_tokens(source(lambda: next(portions)), {}, ALONE, StopRequest(), 12)
    assert (found.real_rows, found.all_rows, found.weight) == (5, 8, 1.0)


def test_portions_are_added_until_there_are_enough_tokens():
    """Portions of 33 tokens: one for up to 33, and one more for each 33 above."""
    head = SimpleNamespace(count=lambda tensors: len(tensors["lengths"]))

    for tokens, portions in ((None, 1), (1, 1), (33, 1), (34, 2), (66, 2), (67, 3)):
        portion = source(lambda: time.sleep(0.002) or [micro_batch([1.0, 1.0])])
        found = next_batch_of_tokens(portion, {"lm": head}, ALONE, StopRequest(), tokens)

        assert (len(found.micro_batches), found.tokens, found.counts) == (
            portions,
            33 * portions,
            {"lm": 2.0 * portions},
        )
        assert found.waited >= 0.002 * portions


def test_a_request_to_stop_between_portions_leaves_the_batch():
    stop = StopRequest()
    read = []

    def reading():
        stop.reason = "SIGTERM" if read else None
        read.append(len(read))
        assert len(read) < 3, "read after the request"
        return [micro_batch([1.0])]

    assert next_batch_of_tokens(source(reading), {}, ALONE, stop, 22).stop, (
        "though the tokens are there"
    )


def test_a_request_to_stop_ends_the_wait_for_tokens():
    """They never come: the ranks meet once."""
    stop = StopRequest()
    world = Alone()
    met = iter([1])
    stop.reason = "SIGTERM"
    world.sum_over_ranks = lambda values: list(values) * next(met)

    assert next_batch_of_tokens(source(lambda: pytest.fail("read")), {}, world, stop, 22).stop


def test_nothing_is_read_after_a_request_to_stop():
    stop = StopRequest()
    stop.reason = "SIGTERM"
    found = next_global_batch(source(lambda: pytest.fail("read")), {}, ALONE, stop)
    assert found.stop
    assert not found.micro_batches


def test_a_request_ends_the_wait_for_data():
    stop = StopRequest()

    def read():
        assert stop.interrupts
        stop.reason = "SIGTERM"
        raise Interrupted

    found = next_global_batch(source(read), {}, ALONE, stop)

    assert found.stop
    assert not stop.interrupts


def test_an_error_of_reading_is_raised_by_all():
    def read():
        raise StorageError("a shard is missing")

    with pytest.raises(StorageError, match="a shard is missing"):
        next_global_batch(source(read), {}, ALONE, StopRequest())
