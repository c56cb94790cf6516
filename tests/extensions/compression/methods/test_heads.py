import pytest
import torch

from clozeline.extensions.compression.methods._method import gate_importance
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.configuration.position import DisentangledConfig, PositionConfig
from clozeline.model.layers import position
from tests.extensions.compression.methods.compressed_models import (
    compressed,
    logits,
    model_of,
    odd_checkpoint,
)
from tests.model.small_models import batch_for
from tests.refusals import refused

CASE = {"keep": 2}
OUT = "family.stack.layers.{}.attention.body.out"


def masked(model, kept, width):
    """The larger model, in which the output of a removed head is zero before the output
    projection."""

    def hook(indices):
        def zero(module, inputs):
            features = torch.zeros(inputs[0].shape[-1], dtype=inputs[0].dtype)
            for head in indices:
                features[head * width : (head + 1) * width] = 1
            return inputs[0] * features

        return zero

    for path, indices in kept.items():
        model.get_submodule(path).register_forward_pre_hook(hook(indices))
    return model


def kept_of(lines):
    pairs = (line.strip().split(": ") for line in lines[1:])
    return {path: [int(index) for index in indices.split(", ")] for path, indices in pairs}


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("calibrated", [True, False])
def test_removed_heads_are_masked_heads(keep, calibrated):
    dense = odd_checkpoint()
    batches = [batch_for("encoder", seed=seed) for seed in (3, 4)]
    smaller = compressed(dense, "heads", batches if calibrated else (), keep=keep)
    config = smaller.checkpoint.config
    kept = kept_of(smaller.lines)

    assert (config.attention_heads, config.head_width) == (keep, 5)
    assert len(kept) == 5
    assert all(len(heads) == keep for heads in kept.values())

    model = model_of(dense)
    for path, heads in () if calibrated else kept.items():
        norms = model.get_submodule(path).weight.detach().view(-1, 3, 5).norm(dim=(0, 2))
        assert heads == sorted(norms.topk(keep).indices.tolist()), "those whose outputs weigh most"

    expected = logits(masked(model, kept, 5), batch_for("encoder"))

    assert (
        logits(model_of(smaller.checkpoint), batch_for("encoder")) - expected
    ).abs().max() <= 1e-12


@pytest.mark.parametrize("family", ["decoder", "encoder_decoder"])
def test_groups_and_cross_attention_are_cut_too(family):
    changes = (
        {}
        if family == "decoder"
        else {"position": PositionConfig(), "decoder_attention_heads": 5, "head_dim": 3}
    )

    dense = odd_checkpoint(family, **changes)
    smaller = compressed(dense, "heads", sparsity=0.5)
    config = smaller.checkpoint.config
    kept = kept_of(smaller.lines)
    width = dense.config.head_width * (2 if family == "decoder" else 1)

    if family == "decoder":
        assert (config.attention_heads, config.kv_heads, config.head_dim) == (4, 2, 4)
    else:
        assert (config.attention_heads, config.decoder_attention_heads) == (2, 2)
        assert sum(".cross." in path for path in kept) == dense.config.decoder_depth

    expected = logits(masked(model_of(dense), kept, width), batch_for(family))

    assert (logits(model_of(smaller.checkpoint), batch_for(family)) - expected).abs().max() <= 1e-12


def test_a_gain_that_all_heads_share_stays():
    dense = odd_checkpoint("decoder", qk_norm="head", norm="layer")
    smaller = compressed(dense, "heads", sparsity=0.5)
    expected = logits(masked(model_of(dense), kept_of(smaller.lines), 8), batch_for("decoder"))

    assert (
        logits(model_of(smaller.checkpoint), batch_for("decoder")) - expected
    ).abs().max() <= 1e-12


def test_a_norm_over_all_heads_is_refused():
    with refused("qk_norm all, the statistics of queries and keys span all heads"):
        compressed(odd_checkpoint("decoder", qk_norm="all"), "heads", sparsity=0.5)


@pytest.mark.parametrize("family", ["deberta", "xlnet"])
def test_relative_projections_lose_the_same_heads(family):
    if family == "deberta":
        position = PositionConfig(disentangled=DisentangledConfig(max_distance=4))
        dense = odd_checkpoint("encoder", position=position, norm_place="post", final_norm=False)
    else:
        dense = odd_checkpoint("xlnet", dim=18, head_dim=5)

    smaller = compressed(dense, "heads", keep=2)
    tensors = batch_for("xlnet" if family == "xlnet" else "encoder")
    if family == "xlnet":
        tensors["prediction_order"] = torch.zeros(len(tensors["label_index"]), dtype=torch.int64)
    expected = logits(masked(model_of(dense), kept_of(smaller.lines), 5), tensors)
    # DeBERTa computes scores and averages in fp32 whatever the weights are
    tolerance = 1e-5 if family == "deberta" else 1e-12

    assert (logits(model_of(smaller.checkpoint), tensors) - expected).abs().max() <= tolerance


def test_importance_is_the_product_of_output_and_gradient():
    """|sum of Att_h * dL/dAtt_h| of each row, by autograd at the head's output (arXiv 1905.10650,
    equation 2)."""
    dense = odd_checkpoint()
    batch = batch_for("encoder", seed=5)
    model = model_of(dense)
    seen = []
    module = model.get_submodule(OUT.format(3))
    module.register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[0]) or inputs[0].retain_grad()
    )
    (loss,) = model(batch).values()
    loss.total.backward()
    products = (seen[0] * seen[0].grad).sum(1).view(4, 3, 5).sum(2).abs().mean(0)
    found = gate_importance(
        build_checkpoint(dense),
        {OUT.format(3): 3},
        [batch],
    )[OUT.format(3)]

    assert (found - products).abs().max() <= 1e-12
    assert (found > 0).all()


@pytest.mark.parametrize(
    ("family", "options", "message"),
    [
        ("encoder", {"keep": 4}, "at most the 3 heads"),
        ("decoder", {"keep": 3}, "split a group of 2"),
        ("encoder_decoder", {"keep": 1}, "t5"),
        ("awd_lstm", {"keep": 1}, "no attention"),
    ],
)
def test_heads_that_are_not_there_are_refused(family, options, message):
    with refused(message):
        compressed(odd_checkpoint(family), "heads", **options)


def test_heads_with_another_bias_each_are_refused(monkeypatch):
    class Bias(position.Position):
        def bias(self, queries, keys):
            return torch.arange(3.0)[:, None, None] * (keys - queries)

    monkeypatch.setattr(position, "build_position", lambda *_, **__: Bias())
    with refused("each head has its own bias"):
        compressed(odd_checkpoint("encoder"), "heads", keep=1)
