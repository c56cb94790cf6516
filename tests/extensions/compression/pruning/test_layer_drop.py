"""LayerDrop: one decision everywhere, zero gradients of skipped layers, and a shallower model
afterwards."""

import pytest
import torch

from clozeline.extensions.compression.registries import PRUNING
from clozeline.model.build import build_model
from clozeline.train.hooks import StepInfo
from tests.extensions.compression.pruning.pruned import plain_adamw, pruned, started, train
from tests.refusals import refused
from tests.train.synthetic import VOCABULARY, random_rows, tiny, train_steps

CASE = {"prune": {"p": 0.5}}
DEEP = {"model__layers": 3}


def dropping(p, **changes):
    return pruned({"name": "layer_drop", "p": p}, **DEEP, **changes)


def skipped_layers(world, config, steps):
    """The layers that each step skips on this rank, as the outputs of the layers show it."""
    engine = started(config, world)
    skipped = []

    for index, layer in enumerate(engine.model.family.stack.layers):

        def note(_, inputs, output, index=index):
            if torch.equal(inputs[0], output):
                skipped[-1].append(index)

        layer.register_forward_hook(note)

    for step in range(1, steps + 1):
        skipped.append([])
        train_steps(engine, step, step)

    engine.close()
    return [sorted(of_step) for of_step in skipped]


def evaluated(world, config):
    engine = started(config, world)
    engine.train(False)
    for hook in engine.hooks:
        hook.begin(StepInfo(1, 0, 8, {}, 1.0, recorded=False))
    loss = float(engine.losses(random_rows(1, 8, 0, 8))["masked_lm"].total)
    engine.close()
    return loss


def test_an_evaluation_uses_all_layers(one_rank):
    assert one_rank.run(evaluated, dropping(0.99)) == one_rank.run(evaluated, pruned(None, **DEEP))


def test_the_share_of_skipped_layers_is_p():
    method = PRUNING.resolve({"name": "layer_drop", "p": 0.2}).build()
    method._seed = 5
    drawn = [method.is_skipped(layer, step) for step in range(1, 1001) for layer in range(10)]
    assert abs(sum(drawn) / 10_000 - 0.2) < 4 * (0.2 * 0.8 / 10_000) ** 0.5


def plain_loop(world, config, skipped):
    """One process whose stack has only the layers that a step keeps, run directly.

    The others get gradients of 0.
    """
    model = build_model(config.model, VOCABULARY, {}, seed=1)
    layers = list(model.family.stack.layers)
    order = model.family.stack.order
    optimizer = plain_adamw(model.parameters())
    schedule = config.schedule.build(8)
    losses = []

    for step, gone in enumerate(skipped, start=1):
        for group in optimizer.param_groups:
            group["lr"] = 0.003 * schedule(step)
        model.family.stack.order = [index for index in order if index not in gone]
        loss = model(random_rows(step, 8, 0, 8))["masked_lm"]
        (loss.total / loss.count).backward()

        for index in gone:
            for parameter in layers[index].parameters():
                assert parameter.grad is None
                parameter.grad = torch.zeros_like(parameter)

        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.total.detach()) / loss.count)

    return losses


def test_every_stage_equals_the_kept_layers_run_directly(one_rank, two_ranks):
    config = dropping(0.4)
    (skipped,) = one_rank.run(skipped_layers, dropping(0.4, data__micro_batch=8), 8)

    assert 4 <= sum(map(len, skipped)) <= 20

    (expected,) = one_rank.run(plain_loop, config, skipped)
    found = [
        *one_rank.run(train, config),
        *two_ranks.run(train, dropping(0.4, zero__stage=3)),
    ]
    for measured, _ in found:
        assert [loss for loss, _ in measured] == pytest.approx(expected, rel=5e-6)


def test_activation_checkpointing_changes_nothing(one_rank):
    runs = [
        one_rank.run(train, dropping(0.4, activation_checkpointing=way))[0][0]
        for way in (False, True)
    ]
    assert runs[0] == runs[1]


LSTM = {
    "family": "awd_lstm",
    "dim": 20,
    "layers": 2,
    "cell_dim": 24,
    "heads": {"regularized_lm": {}},
}


def test_families_without_plain_layers_are_refused():
    from clozeline.model.build import Model

    with torch.device("meta"):
        built = Model(tiny(model=LSTM).model, VOCABULARY)
    with refused("standard Transformer layers"):
        PRUNING.resolve("layer_drop").build().describe(built, 8)
