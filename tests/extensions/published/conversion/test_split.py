"""A generator and a discriminator leave a run as two models, each with all that it needs."""

import pytest
import torch

from clozeline.extensions.published.conversion.export import (
    export_checkpoint,
    select_heads,
    split_models,
)
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.configuration.position import DisentangledConfig, PositionConfig
from tests.extensions.published.conversion.test_export import checkpoint_of
from tests.extensions.published.peers import export_to, loaded
from tests.model.families.test_replaced_tokens import DISENTANGLED, network_for
from tests.model.small_models import batch_for, built
from tests.refusals import refused

CLASSES = {"generator": "ElectraForMaskedLM", "discriminator": "ElectraForPreTraining"}


@pytest.mark.parametrize("changes", [{"vocab_multiple": 64}, DISENTANGLED])
def test_both_models_compute_what_the_run_does(tmp_path, changes):
    network = network_for(**changes)
    tensors = batch_for("replaced_tokens")
    parts = split_models(checkpoint_of(network))

    assert parts.keys() == CLASSES.keys()

    with torch.no_grad():
        expected = network.logits(
            {name: value for name, value in tensors.items() if name != "sample_words"}
        )
        valid = torch.arange(11) < tensors["lengths"][:, None]

        for (name, part), head in zip(parts.items(), ("masked_lm", "token"), strict=True):
            export = export_checkpoint(part)
            model, report = loaded(export_to(tmp_path / name, export), export.loader)

            assert (type(model).__name__, report) == (CLASSES[name], {})

            logits = model(input_ids=tensors["input_ids"], attention_mask=valid.long()).logits
            found = logits if head == "masked_lm" else logits[..., None]

            assert (found - expected[head])[valid].abs().max() < 1e-5

            if "vocab_multiple" not in changes:
                assert torch.allclose(
                    build_checkpoint(part).logits(tensors)[head], expected[head], atol=1e-5
                )


def test_a_disentangled_run_of_deberta_leaves_as_two(tmp_path):
    """DeBERTa-v3: relative places, which each of the two stacks has for itself."""
    places = DisentangledConfig(max_distance=12, buckets=6, shared_projections=True, norm=True)
    network = network_for(
        **DISENTANGLED,
        emb_dim=24,
        eps=1e-7,
        type_vocab_size=0,
        position=PositionConfig(kind="none", disentangled=places),
        generator={"layers": 1, "dim": 24, "attention_heads": 3, "ffn_dim": 20},
    )

    tensors = batch_for("replaced_tokens", lengths=[11, 11])
    generator, discriminator = split_models(checkpoint_of(network)).values()

    with torch.no_grad():
        del tensors["sample_words"]
        views = network.family.views(tensors, network.heads)

        for part, head in ((generator, "masked_lm"), (discriminator, "token")):
            export = export_checkpoint(part, body_alone=True)
            model, report = loaded(export_to(tmp_path / head, export), export.loader)
            assert (type(model).__name__, report) == ("DebertaV2Model", {})
            states = model(input_ids=tensors["input_ids"]).last_hidden_state
            assert (states - views[head].hidden).abs().max() < 1e-5


def test_heads_without_a_class_leave_with_the_body_alone():
    heads = {"masked_lm": 1.0, "corrective": 1.0, "similarity": {"group_size": 2}}
    parts = split_models(checkpoint_of(network_for(heads=heads)))
    assert set(parts["discriminator"].config.heads) == {"corrective", "similarity"}
    for part in parts.values():
        assert export_checkpoint(part, body_alone=True).config["architectures"] == ["ElectraModel"]


def test_some_heads_leave_without_the_others(tmp_path):
    """SpanBERT's boundary head has no class of transformers; the one beside it has."""
    network = built(
        "encoder", heads={"masked_lm": 1.0, "span_boundary": 0.5}, tied=False, eps=1e-12
    )
    whole = checkpoint_of(network)
    tensors = batch_for("encoder")

    with refused("this one has masked_lm and span_boundary: export some of them"):
        export_checkpoint(whole)

    export = export_checkpoint(select_heads(whole, ["masked_lm"]))
    model, report = loaded(export_to(tmp_path / "out", export), export.loader)

    assert (type(model).__name__, report) == ("BertForMaskedLM", {})

    valid = torch.arange(11) < tensors["lengths"][:, None]
    with torch.no_grad():
        logits = model(input_ids=tensors["input_ids"], attention_mask=valid.long()).logits
        assert (logits - network.logits(tensors)["masked_lm"])[valid].abs().max() < 1e-5

    with refused("expected some of masked_lm, span_boundary, got lm"):
        select_heads(whole, ["lm"])
