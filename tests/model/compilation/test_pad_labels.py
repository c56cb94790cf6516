"""Label tensors padded to a number: the same losses, counts and gradients, and one graph for all
batches."""

import pytest
import torch

from clozeline.columns import IGNORED, LABEL_INDEX
from clozeline.model import registries
from clozeline.model.compilation.host_shapes import pad_labels
from clozeline.model.compilation.layer_calls import compile_heads
from clozeline.tools.start.contracts.heads import full_batch
from tests.matrices import mark_slow_after
from tests.model.small_models import FAMILIES, HEADS, batch_for, built, head_keys, total

TRACER = (  # warnings of the tracer itself, while it looks at intermediate results
    "ignore:The .grad attribute of a Tensor:UserWarning",
    "ignore::DeprecationWarning",
    "ignore::FutureWarning",
)
LABELED = [head for head in HEADS if LABEL_INDEX in registries.HEADS.load_class(head).reads]
CASES = [("encoder", head) for head in LABELED] + [
    (name, None) for name in registries.FAMILIES.available()
]
IDS = [head or family for family, head in CASES]


def model_and_batch(family, head):
    """A model in fp64, and a batch that has what its heads read."""
    more = (
        {}
        if head is None
        else {"heads": {head: head_keys(head)}, "tied": head != "bidirectional_lm"}
    )

    return built(family, **more).double(), batch_for(family) if head is None else full_batch()


def results(network, tensors):
    """Losses, counts and figures of each head, and all gradients."""
    network.zero_grad()
    losses = network(tensors)
    torch.stack([loss.total for loss in losses.values()]).sum().backward()
    gradients = {name: parameter.grad.clone() for name, parameter in network.named_parameters()}
    said = {
        name: (
            loss.total.item(),
            loss.count,
            {key: sum_.item() for key, sum_ in loss.metrics.items()},
        )
        for name, loss in losses.items()
    }

    return said, gradients


@pytest.mark.parametrize("capacity", [5, 64])
@pytest.mark.parametrize(("family", "head"), CASES, ids=IDS)
def test_losses_counts_and_gradients_are_those_without_padding(family, head, capacity):
    network, tensors = model_and_batch(family, head)
    said, gradients = results(network, tensors)
    again, others = results(network, pad_labels(tensors, capacity, network.reads))

    assert said.keys() == again.keys()

    for name in said:
        assert again[name][0] == pytest.approx(said[name][0], rel=1e-6)  # heads sum in fp32
        assert again[name][1:] == said[name][1:]

    assert all(
        torch.allclose(others[name], gradient, rtol=1e-6, atol=1e-9)
        for name, gradient in gradients.items()
    )


@pytest.mark.parametrize("name", ["label_weight", "row"])
def test_weights_of_labels_are_kept(name):
    if name == "row":
        network = built("encoder", heads={"masked_lm": {"normalize": "row"}}).double()
        tensors = batch_for("encoder")
    else:
        network, tensors = model_and_batch("encoder", "masked_lm")
        tensors["label_weight"] = 0.5 + torch.rand(len(tensors["label_ids"]))
        tensors["label_count"] = torch.arange(1, len(tensors["input_ids"]) + 1)

    said, _ = results(network, tensors)
    again, _ = results(network, pad_labels(tensors, 50))

    assert again["masked_lm"] == (
        pytest.approx(said["masked_lm"][0], rel=1e-6),
        *said["masked_lm"][1:],
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_without_labels_is_padded_too_and_learns_nothing(family):
    network = built(family).double()
    tensors = pad_labels(batch_for(family, labels=False), 8)

    assert tensors["label_ids"].tolist() == [IGNORED] * 8

    ((loss, count, _),), gradients = (found := results(network, tensors))[0].values(), found[1]

    assert (loss, count) == (0.0, 0)
    assert all((gradient == 0).all() for gradient in gradients.values())


def test_more_labels_than_the_capacity_take_its_next_multiple():
    tensors = batch_for("encoder", rows=9)
    sizes = [
        len(pad_labels(tensors, capacity)["label_index"])
        for capacity in (1, 4, 5, 17, 18, 19, 1000)
    ]

    assert sizes == [18, 20, 20, 34, 18, 19, 1000]

    found = pad_labels(tensors, 5)

    assert torch.equal(found["label_index"][:18], tensors["label_index"])
    assert torch.equal(found["label_ids"][:18], tensors["label_ids"])


@pytest.mark.filterwarnings(*TRACER)
@pytest.mark.parametrize("chunk", mark_slow_after(1, [None, 8]))
@pytest.mark.parametrize(
    "head", [head for head in LABELED if registries.HEADS.load_class(head).unit == "label"]
)
def test_a_head_is_one_graph_for_all_numbers_of_labels(head, chunk):
    torch._dynamo.reset()
    from torch._dynamo.testing import CompileCounter  # slow to import

    (network, tensors), counter = model_and_batch("encoder", head), CompileCounter()
    network.heads[head].label_chunk = chunk
    compile_heads(network, backend=counter)

    for labels in (len(tensors["label_index"]), 5, 3):
        of_labels = {name for name, field in network.reads.items() if field.per == "label"}
        part = {
            name: tensor[:labels] if name in of_labels else tensor
            for name, tensor in tensors.items()
        }
        expected = total(model_and_batch("encoder", head)[0], part).item()

        assert total(network, pad_labels(part, 40, network.reads)).item() == pytest.approx(
            expected, rel=1e-6
        )

    assert counter.frame_count == 1
