"""Waits of a step for the device: how many, when, and that clipping without them has the bits of
DeepSpeed's."""

from unittest.mock import patch

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.train.data.global_batch import next_global_batch
from clozeline.train.distributed.stopping import StopRequest
from tests.matrices import STAGES, mark_slow_but
from tests.train.synthetic import RandomSource, build, tiny, train_steps


class Reads(TorchDispatchMode):
    """Notes what the host has to know of a tensor: its value, or the size that a result gets from
    its values."""

    def __init__(self, notes):
        super().__init__()
        self.notes = notes

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        depends = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags)
        # the size depends on values of masks, not of indices
        if func is torch.ops.aten.index.Tensor:
            depends = any(
                index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
            )

        if depends:
            self.notes.append("read")
        return func(*args, **(kwargs or {}))


def waits(world, config):
    """Reads, copies to the host and waits for them in a complete step, and its first update."""
    notes = []

    class NotedEvent:
        waited = False

        def record(self):
            notes.append("copy")

        def synchronize(self):
            if not self.waited:
                notes.append("wait")
            self.waited = True

    engine = build(config, world)
    train_steps(engine, 1, 1)
    batch = next_global_batch(RandomSource(config, world, 1), engine.divisors, world, StopRequest())
    # as on a GPU, where properties of batches are computed before they are copied, and not again
    inputs = {
        id(one): add_host_shapes(dict(one.tensors), 16, frozenset()) for one in batch.micro_batches
    }
    engine.inputs = lambda batch, step: inputs[id(batch)]
    engine.optimizer.register_step_pre_hook(
        lambda *_: notes.append("update") if "update" not in notes else None
    )
    no_second = patch("clozeline.model.build.add_host_shapes", lambda tensors, *_: tensors)
    with Reads(notes), patch.object(torch.cpu, "Event", NotedEvent), no_second:
        engine.step(batch.micro_batches, batch.counts, 2, 1e-3)
    engine.close()
    return notes


@pytest.mark.parametrize(
    ("stage", "precision"), mark_slow_but([(0, "fp32"), (1, "bf16"), (3, "fp32")], STAGES)
)
def test_a_step_waits_for_the_device_once(one_rank, two_ranks, stage, precision):
    """Before the update, so that the host prepares the next step while the device still does this
    one.

    The last wait is for a copy made after DeepSpeed's read and before the update, which has ended
    long before.
    """
    by_deepspeed = stage == 3 or (stage, precision) == (1, "bf16")
    expected = ["read", "copy", "update", "wait"] if by_deepspeed else ["copy", "wait", "update"]
    config = tiny(zero__stage=stage, precision=precision)
    assert one_rank.run(waits, config) == [expected]
    assert two_ranks.run(waits, config) == [expected, expected]
