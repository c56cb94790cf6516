"""Copies to a device: right at the latest time that their waits allow, and on their way while the
device computes."""

import pytest
import torch

from clozeline.train.data.global_batch import DeviceCopies
from tests.train.data.late_device import LateDevice
from tests.train.synthetic import RandomBatch, build, random_rows, tiny, train_steps

CPU = torch.device("cpu")


def batch(number):
    """Types, ranks and strides of a batch; every third one is three times as large."""
    rows = 30 if number % 3 == 2 else 10
    return {
        "input_ids": torch.arange(rows * 7).view(rows, 7).add(number).to(torch.uint16),
        "lengths": torch.tensor(number),
        "max_seqlen": torch.empty(number + 1, 0),
        "row_weight": torch.rand(rows),
        "mask": torch.rand(rows, 3) < 0.5,
        "position_ids": torch.arange(number, number + 7).expand(rows, 7),
        "targets": torch.rand(2, rows, dtype=torch.float64).t(),
        "nothing": torch.empty(0, dtype=torch.int64),
    }


def assert_equal(found, expected):
    assert list(found) == list(expected)

    for name, tensor in expected.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        assert torch.equal(found[name], tensor), name
        assert found[name].is_contiguous()
        assert found[name].numel() == 0 or found[name].data_ptr() % 64 == 0


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_copies_are_right_as_late_as_waits_allow(ahead):
    """Also where more copies are under way than there are pinned buffers: then the host waits."""
    batches = [batch(number) for number in range(12)]

    with LateDevice() as device:
        copies = DeviceCopies(CPU, device)
        under_way = []

        for number, one in enumerate(batches):
            under_way.append(copies.start(one))
            if number >= ahead:
                assert_equal(under_way.pop(0).wait(), batches[number - ahead])

        for copy, one in zip(under_way, batches[len(batches) - ahead :], strict=True):
            assert_equal(copy.wait(), one)
    # the side stream owns the memory; the computing stream has told that it reads it
    assert len(device.read) == len(batches)
    assert {stream for _, stream in device.read} == {device.compute}
    assert {device.allocated[address] for address, _ in device.read} == {copies._stream}
    assert device.compute.work == []


def train_and_evaluate(world, config, copied):
    """Losses and norms of two steps, losses of an evaluation, and the order of copies and
    passes."""
    engine = build(config, world)
    order = []

    with LateDevice() as device:
        if copied:
            copies = engine._copies = DeviceCopies(CPU, device)
            start = copies.start
            backward = engine.zero.backward
            copies.start = lambda tensors: (order.append("copy"), start(tensors))[1]
            engine.zero.backward = lambda *a, **k: (order.append("backward"), backward(*a, **k))[1]
            engine.model.register_forward_pre_hook(
                lambda *_: order.append(f"forward {copies._stream.done}")
            )

        steps = train_steps(engine, 1, 2)
        engine.train(False)

        with torch.no_grad():
            batches = [RandomBatch(random_rows(step, 2, 0, 2)) for step in (3, 4)]
            evaluated = [
                float(engine.losses(engine.inputs(one, 0))["masked_lm"].total) for one in batches
            ]

    engine.close()
    return [*steps, *evaluated], order


@pytest.mark.parametrize("stage", [0, 2])
def test_the_next_micro_batch_is_copied_while_the_device_computes(one_rank, stage):
    """Its copy starts between the forward and the backward pass.

    A forward pass waits for its own copy alone.
    """
    ((plain, _),) = one_rank.run(train_and_evaluate, tiny(zero__stage=stage), False)
    ((copied, order),) = one_rank.run(train_and_evaluate, tiny(zero__stage=stage), True)

    assert copied == plain

    expected = []

    for first in (1, 5):  # a step of four micro-batches, and another one
        expected += ["copy", f"forward {first}"]
        for number in range(first + 1, first + 4):
            expected += ["copy", "backward", f"forward {number}"]
        expected += ["backward"]

    assert order == [*expected, "copy", "forward 9", "copy", "forward 10"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_copies_are_right_on_a_gpu():
    """While slow work delays both streams."""
    copies = DeviceCopies(torch.device("cuda", 0))

    for _ in range(5):
        stalling = torch.ones(4096, 4096, device="cuda")
        for _ in range(20):
            stalling = stalling @ stalling * 0
        batches = [batch(number) for number in range(12)]
        found = [copies.start(one).wait() for one in batches]
        for moved, expected in zip(found, batches, strict=True):
            assert_equal({name: tensor.cpu() for name, tensor in moved.items()}, expected)
