import math
import weakref

import pytest
import torch

from clozeline.model.build import build_model
from clozeline.train.checkpoint.zero_partitions import fragments, memory
from clozeline.train.configuration.engine_config import placement_of
from clozeline.train.data.global_batch import next_global_batch
from clozeline.train.distributed.stopping import StopRequest
from tests.matrices import mark_slow_after
from tests.train.synthetic import (
    VOCABULARY,
    RandomBatch,
    RandomSource,
    build,
    global_loss,
    tiny,
    train_steps,
)


def losses(world, config, steps):
    engine = build(config, world)
    found = train_steps(engine, 1, steps)
    engine.close()
    return [(float.fromhex(loss), float.fromhex(norm)) for loss, norm in found]


def begin_at_stage_3(world):
    config = tiny(zero__stage=3)
    build_model(config.model, VOCABULARY, {}, seed=1, placement=placement_of(config, world))


def test_one_rank_in_fp32_has_nothing_to_share(one_rank):
    """Stages 1 and 2 are stage 0 to the last bit, with dropout and clipping, and hold no second
    copy of the weights, also where a start at stage 3 was refused after its model was built."""
    one_rank.run(begin_at_stage_3)
    plain, *others = (one_rank.run(losses, tiny(zero__stage=stage), 4) for stage in (0, 1, 2))
    assert others == [plain, plain]
    ((found, count),) = one_rank.run(held_bytes, tiny(zero__stage=2))
    expected = {"weights": 4 * count, "gradients": 4 * count, "optimizer": 8 * count}
    assert found == {key: pytest.approx(value, rel=0.02) for key, value in expected.items()}


@pytest.mark.parametrize(
    ("changes", "bytes_each"),
    [
        ({"zero__stage": 1}, 2),
        ({"zero__stage": 2}, 2),
        ({"zero__stage": 3}, 2),
        ({"zero__stage": 1, "precision": "bf16"}, 2 + 4),
        ({"zero__stage": 3, "zero__offload": "optimizer"}, 2 + 2),
    ],
)
def test_the_gradients_of_each_rank_are_measured(two_ranks, changes, bytes_each):
    """Wherever DeepSpeed holds them, by parameter of the model.

    In fp32 each of two ranks has those of its half; in bf16 at stage 1 all of them, and sums of
    them in fp32; with `zero.offload` its half twice, on the device and on the host.
    """
    for found, count in two_ranks.run(held_bytes, tiny(**changes)):
        assert found["gradients"] == pytest.approx(bytes_each * count, rel=0.05)


def label_free(world, config):
    """One micro-batch of rank 0 without labels; then a whole global batch without any."""
    engine = build(config, world)
    results = []

    for empty in ({(0, 0)}, {(rank, index) for rank in (0, 1) for index in (0, 1)}):
        whole = next_global_batch(RandomSource(config, world), engine.heads, world, StopRequest())
        batches = list(whole.micro_batches)
        for index, batch in enumerate(batches):
            if (world.rank, index) in empty:
                none = {name: batch.tensors[name][:0] for name in ("label_index", "label_ids")}
                batches[index] = RandomBatch({**batch.tensors, **none})

        counts = {
            "masked_lm": world.sum_over_ranks(
                [sum(engine.heads["masked_lm"].count(b.tensors) for b in batches)]
            )[0]
        }

        result = engine.step(batches, counts, 1, 0.0)
        results.append((global_loss(result, counts, world), result.gradient_norm, result.skipped))

    engine.close()
    return results


@pytest.mark.parametrize("stage", [0, 3])
def test_batches_without_labels(two_ranks, stage):
    (some, norm, skipped), nothing = two_ranks.run(label_free, tiny(zero__stage=stage))[0]
    assert math.isfinite(some)
    assert norm > 0
    assert not skipped
    assert nothing == (0.0, 0.0, False)


def after_a_skip(world, config, at):
    """Losses and norms of steps 4 to 6, and the weights after them, where step 3 was skipped.

    Its gradient is not a number on the last rank, in micro-batch `at` (-1: the last); None: step 3
    is left out.
    """
    engine = build(config, world)
    found = train_steps(engine, 1, 2)

    if at is None:
        engine.skipped += 1
    else:
        at %= config.data.global_batch // config.data.micro_batch // world.size
        backward = iter(
            [
                math.nan if at == index and world.rank == world.size - 1 else 1.0
                for index in range(8)
            ]
        )
        bias = next(
            p for name, p in engine.model.named_parameters() if name.endswith("projection.bias")
        )
        hook = bias.register_hook(lambda gradient: gradient * next(backward))
        assert train_steps(engine, 3, 3)[0][1] == "inf"
        hook.remove()

    found = train_steps(engine, 4, 6)
    pieces = sorted(fragments(engine, owned=False), key=lambda piece: (piece.name, piece.start))
    states = [
        (piece.name, key, value.tolist())
        for piece in pieces
        for key, value in piece.tensors.items()
    ]

    engine.close()
    return [found, states]


@pytest.mark.parametrize(
    ("ranks", "stage", "precision", "offload"),
    mark_slow_after(
        2,
        [
            (1, 0, "fp32", "none"),
            (2, 2, "bf16", "optimizer"),
            (1, 2, "bf16", "optimizer"),
            (1, 3, "bf16", "none"),
        ],
    ),
)
def test_steps_after_a_skip_are_those_without_it(request, ranks, stage, precision, offload):
    """To the bit, with dropout: nothing of a gradient that was not finite is left, whichever
    micro-batch had it."""
    pool = request.getfixturevalue("one_rank" if ranks == 1 else "two_ranks")
    zero = {"stage": stage, "offload": offload, "bucket": 100_000}
    hooks = ["average"] if offload == "none" else []
    config = tiny(zero=zero, precision=precision, data__micro_batch=2, hooks=hooks)
    expected = pool.run(after_a_skip, config, None)
    for at in (0, -1):
        assert pool.run(after_a_skip, config, at) == expected


def unused_weights(world, config):
    """Two steps of a model with weights that no batch reads; what they are then."""
    weights = torch.nn.Parameter(torch.ones(2, 3))
    engine = build(
        config, world, prepare=lambda model: model.family.register_parameter("unused", weights)
    )
    train_steps(engine, 1, 2)
    engine.close()
    return weights.tolist()


def test_weights_that_take_no_part_decay_on_one_rank_too(one_rank, two_ranks):
    config = tiny(zero__stage=0, optimizer__weight_decay=0.5)
    (alone,) = one_rank.run(unused_weights, config)
    assert two_ranks.run(unused_weights, config) == [alone, alone]
    assert alone[0][0] < 1


def still_referenced(world, config):
    engine = build(config, world)
    reference = weakref.ref(engine)
    engine.close()
    del engine
    return reference() is not None


def test_a_closed_engine_is_released(one_rank):
    """With its teacher and averages, though DeepSpeed keeps the optimizer at stage 3."""
    assert one_rank.run(still_referenced, tiny(zero__stage=3)) == [False]


def held_bytes(world, config):
    engine = build(config, world)
    count = sum(getattr(p, "ds_numel", p.numel()) for p in engine.model.parameters())
    train_steps(engine, 1, 1)
    found = memory(engine)
    engine.close()
    return found, count
