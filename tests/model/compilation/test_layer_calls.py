"""Layers that are computed again, or compiled: the same losses and gradients."""

import pytest
import torch
from torch._functorch import config as functorch_config
from torch.autograd.graph import saved_tensors_hooks

from clozeline.model import registries
from clozeline.model.compilation import layer_calls
from clozeline.model.compilation.layer_calls import compile_heads, compile_layers, recompute_layers
from clozeline.model.configuration.capabilities import FIXED_GRAPHS
from clozeline.model.configuration.layer import DropoutConfig
from tests.model.small_models import FAMILIES, batch_for, built, total

DROPOUT = DropoutConfig(embedding=0.1, attention=0.1, hidden=0.1, activation=0.1, output=0.1)


def trained_once(network, tensors):
    """The loss, the gradients, and the number of values that were kept for the backward pass."""
    kept = {}

    def keep(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.numel()
        return tensor

    torch.manual_seed(3)
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = total(network, tensors)
    loss.backward()
    gradients = [parameter.grad.clone() for parameter in network.parameters()]
    return loss, gradients, sum(kept.values())


@pytest.mark.parametrize("family", FAMILIES)
def test_recomputed_layers_give_the_same_bits_and_keep_less(family):
    tensors = batch_for(family, rows=8)
    loss, gradients, kept = trained_once(built(family, dropout=DROPOUT), tensors)
    network = built(family, dropout=DROPOUT)
    recompute_layers(network)
    again, others, fewer = trained_once(network, tensors)

    assert torch.equal(again, loss)
    assert all(map(torch.equal, others, gradients))
    assert fewer < 0.6 * kept


COMPILED = [
    family
    for family in registries.FAMILIES.available()
    if FIXED_GRAPHS not in registries.FAMILIES.load_class(family).prevents
]
WARNINGS = pytest.mark.filterwarnings(  # the tracer's own, while it looks at intermediate results
    "ignore:The .grad attribute of a Tensor:UserWarning",
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
)


def failing(first):
    """A backend that runs graphs as they are, and fails from its call number `first` on."""
    calls = []

    def backend(graph, _):
        calls.append(graph)
        if len(calls) >= first:
            raise RuntimeError("no compiler here")
        return graph

    return backend


def fail_backward(graph, inputs):
    from torch._dynamo.backends.common import aot_autograd  # slow to import

    return aot_autograd(fw_compiler=lambda graph, _: graph, bw_compiler=failing(1))(graph, inputs)


@WARNINGS
@functorch_config.patch(force_non_lazy_backward_lowering=False)
@pytest.mark.parametrize(
    ("backend", "graphs", "told"),
    [
        (failing(1), 64, "BackendCompilerFailed"),
        (failing(2), 64, "BackendCompilerFailed"),
        ("eager", 1, "FailOnRecompileLimitHit"),
        (fail_backward, 64, "BackendCompilerFailed"),
    ],
    ids=["first layer", "second layer", "recompile limit", "backward"],
)
def test_layers_go_on_uncompiled_where_compiling_fails(monkeypatch, backend, graphs, told):
    """Losses and gradients of both steps, dropout included, are those of a network that was never
    compiled."""
    monkeypatch.setattr(layer_calls, "_MAX_GRAPHS", graphs)
    torch.compiler.reset()
    reasons = []
    plain = built("encoder", dropout=DROPOUT)
    network = built("encoder", dropout=DROPOUT)
    recompute_layers(plain)
    compile_layers(network, backend, on_failure=lambda reason: reasons.append(reason))
    recompute_layers(network)

    for tensors in (batch_for("encoder", rows=4), batch_for("encoder", rows=3, columns=7)):
        loss, gradients, _ = trained_once(plain, tensors)
        again, others, _ = trained_once(network, tensors)
        assert torch.equal(again, loss)
        assert all(map(torch.equal, others, gradients))

    assert [reason.partition(":")[0] for reason in reasons] == [told]


@WARNINGS
def test_a_failure_is_raised_unless_somebody_is_told():
    torch.compiler.reset()
    network = built("encoder")
    compile_layers(network, failing(1))
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        total(network, batch_for("encoder"))


@WARNINGS
def test_a_mistake_of_the_layer_is_no_failure_of_the_compiler():
    torch.compiler.reset()
    network = built("encoder")
    reasons = []
    compile_layers(network, "eager", on_failure=lambda reason: reasons.append(reason))
    layer = next(iter(network.family.stack.layers))
    with pytest.raises(TypeError):
        layer(None)

    assert reasons == []


def steps_and_evaluations(family, networks, shapes):
    """Losses of each network in training and in evaluation, of batches without and with padding."""
    for seed, (rows, columns) in enumerate(shapes):
        for lengths in ([columns] * rows, None):
            tensors = batch_for(family, seed=seed, rows=rows, columns=columns, lengths=lengths)

            for training in (True, False):
                found = []

                for network in networks:
                    network.train(training)
                    with torch.set_grad_enabled(training):
                        found.append(sum(loss.total for loss in network(tensors).values()))
                    if training:
                        found[-1].backward()

                yield found


@WARNINGS
@pytest.mark.parametrize(
    "family",
    [pytest.param(name, marks=[] if name == "encoder" else pytest.mark.slow) for name in COMPILED],
)
def test_compiled_layers_train_and_evaluate_rows_of_any_number_and_length(family):
    """Each shape but the first ones is read by graphs that are there: it is no reason to compile
    again."""
    torch.compiler.reset()  # else the graphs of other tests count
    from torch._dynamo.testing import CompileCounter  # slow to import

    plain = built(family)
    network = built(family)
    counter = CompileCounter()
    compile_layers(network, backend=counter)
    compile_heads(network, backend="eager")

    for compiled, expected in steps_and_evaluations(
        family, (network, plain), [(4, 11), (3, 9), (2, 13), (1, 7)]
    ):
        assert compiled.item() == pytest.approx(expected.item(), rel=1e-5)

    graphs = counter.frame_count

    for compiled, expected in steps_and_evaluations(
        family, (network, plain), [(5, 8), (1, 12), (6, 14)]
    ):
        assert compiled.item() == pytest.approx(expected.item(), rel=1e-5)

    assert counter.frame_count == graphs
