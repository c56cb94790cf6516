"""Stacks that change their model: states are those of transformers, new is what the source cannot have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.model.build import Model, build_model
from clozeline.model.checkpoints import read_checkpoint
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.registry import choose
from clozeline.train.startup.initial_weights import Filled, fill, translate, translate_source
from clozeline.train.startup.open_run import open_run
from tests.model.checkpoints.published import VOCABULARY, saved

IDS = torch.tensor([[5, 9, 30, 7, 11]])


def fill_from(model: Model, source: Path, **options: Any) -> Filled:
    return fill(model, translate_source(model.config, open_run(source)), **options)


def tensors(**more: torch.Tensor) -> dict[str, torch.Tensor]:
    length = IDS.shape[1]
    return {"input_ids": IDS, "position_ids": torch.arange(length)[None], "lengths": torch.tensor([length]), **more}


def built(folder: Path, **changes: Any) -> Model:
    torch.manual_seed(2)
    return build_model(replace(read_checkpoint(folder).config, **changes), VOCABULARY, {"pad": 0}).eval()


def weights(model: Model) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def test_an_encoder_becomes_both_stacks(tmp_path: Path) -> None:
    """The states of the encoder are those of transformers' BERT; a shorter decoder has its first layers."""
    saved(tmp_path, "bert", num_hidden_layers=3)
    model = built(tmp_path, family="encoder_decoder", heads={"lm": 1.0}, decoder_layers=2)
    before = weights(model)
    filled = fill_from(model, tmp_path)
    with torch.no_grad():
        found = model.family.layer_states(tensors())[-1]
        expected = transformers.BertModel.from_pretrained(tmp_path).eval()(IDS).last_hidden_state
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    after, source = weights(model), read_checkpoint(tmp_path).tensors
    for name, value in after.items():
        taken = name.replace(".encoder.", ".stack.").replace(".decoder.", ".stack.")
        if ".cross." in name:
            assert name in filled.fresh
            assert torch.equal(value, before[name])
        elif name.startswith("family."):
            assert torch.equal(value, source[taken]), name
    assert any(".cross." in name for name in after)
    assert not [name for name in filled.fresh if ".cross." not in name and name.startswith("family.")]


@pytest.mark.parametrize("changes", [{"decoder_ffn_dim": 5}, {"parts": (r"family\.encoder\..*", "embeddings")}])
def test_a_decoder_may_be_new(tmp_path: Path, changes: dict[str, Any]) -> None:
    """One whose layers compute something else is, and one that `init_parts` leaves out."""
    saved(tmp_path, "bert")
    parts = changes.pop("parts", ())
    model = built(tmp_path, family="encoder_decoder", heads={"lm": 1.0}, **changes)
    before = weights(model)
    filled = fill_from(model, tmp_path, parts=parts)
    changed = {name for name, value in weights(model).items() if not torch.equal(value, before[name])}
    assert not [name for name in changed if name.startswith("family.decoder.layers.")]
    assert [name for name in changed if name.startswith("family.encoder.layers.")]
    assert {name for name in before if name.startswith("family.decoder.layers.")} <= set(filled.fresh)


def test_a_decoder_of_another_width_attends_through_a_connector(tmp_path: Path) -> None:
    """The encoder is transformers' BERT, all of the decoder and the connector are new; and it is given back."""
    saved(tmp_path, "bert")
    wide = 2 * read_checkpoint(tmp_path).config.dim
    changes: dict[str, Any] = {"decoder_dim": wide, "connector": {"hidden_dim": 6}}
    model = built(tmp_path, family="encoder_decoder", heads={"lm": 1.0}, tied=False, **changes)
    filled = fill_from(model, tmp_path)
    with torch.no_grad():
        expected = transformers.BertModel.from_pretrained(tmp_path).eval()(IDS).last_hidden_state
        torch.testing.assert_close(model.family.layer_states(tensors())[-1], expected, atol=1e-5, rtol=0)
    new = ("family.decoder.", "family.connector.", "heads.")
    assert set(filled.fresh) == {name for name in weights(model) if name.startswith(new)}
    encoder = replace(model.config, family="encoder", decoder_dim=None, connector=None)
    back = translate(encoder, model.config, weights(model))
    assert {name for name in weights(model) if name.startswith(new[:2])} == back.dropped
    own = {name for name in back.tensors if name.startswith("family.stack.")}
    assert own == {name for name in read_checkpoint(tmp_path).tensors if name.startswith("family.stack.")}


def test_an_encoder_decoder_gives_its_encoder(tmp_path: Path) -> None:
    saved(tmp_path, "bart")
    config = read_checkpoint(tmp_path).config
    model = built(
        tmp_path, family="encoder", heads={"classification": replace(config.heads["lm"], classes=2)},
        decoder_layers=None, decoder_attention_heads=None, decoder_ffn_dim=None,
    )  # fmt: skip
    filled = fill_from(model, tmp_path)
    with torch.no_grad():
        expected = transformers.BartModel.from_pretrained(tmp_path).eval().encoder(IDS).last_hidden_state
        torch.testing.assert_close(model.family(tensors()), expected, atol=1e-5, rtol=0)
    assert any(name.startswith("family.decoder.") for name in filled.unused)
    assert all(name.startswith("heads.") for name in filled.fresh)


def test_a_decoder_becomes_an_encoder(tmp_path: Path) -> None:
    """One place alone sees the same in both; of several, all but the last now see more."""
    saved(tmp_path, "gpt2", activation_function="gelu")
    decoder, encoder = built(tmp_path), built(tmp_path, family="encoder", heads={"masked_lm": 1.0})
    fill_from(decoder, tmp_path)
    fill_from(encoder, tmp_path)
    with torch.no_grad():
        whole = [model.family(tensors()) for model in (decoder, encoder)]
        one = {"input_ids": IDS[:, :1], "position_ids": torch.zeros(1, 1).long(), "lengths": torch.tensor([1])}
        first = [model.family(one) for model in (decoder, encoder)]
    torch.testing.assert_close(*first)
    assert (whole[0][:, 0] - whole[1][:, 0]).abs().max() > 1e-3


def test_relative_distances_of_the_other_direction_are_new(tmp_path: Path) -> None:
    saved(tmp_path, "t5")
    config = read_checkpoint(tmp_path).config
    plain = {"decoder_layers": None, "decoder_attention_heads": None, "decoder_ffn_dim": None}
    model = built(tmp_path, family="decoder", heads={"lm": 1.0}, layers=config.decoder_depth, **plain)
    fill_from(model, tmp_path)
    own, source = weights(model), read_checkpoint(tmp_path).tensors
    table = next(name for name in own if name.startswith("family.stack.position."))
    assert torch.equal(own[table], source[table.replace(".stack.", ".decoder.")])
    encoder = built(tmp_path, family="encoder", heads={"lm": 1.0}, **plain)
    fill_from(encoder, tmp_path)
    assert torch.equal(weights(encoder)[table], source[table.replace(".stack.", ".encoder.")])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": 1}, "model.layers: 1 here, 2 there"),
        ({"norm_place": "pre"}, "model.norm_place: pre here, post there"),
        ({"adapter": choose("clozeline.model.adapters", "lora")}, "needs a model of its own family, got encoder for"),
    ],
    ids=["depth", "norms", "adapter"],
)
def test_refusals(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    saved(tmp_path, "bert", num_hidden_layers=2)
    model = built(tmp_path, family="encoder_decoder", heads={"lm": 1.0}, **changes)
    with pytest.raises((ConfigurationError, ClozelineError), match=message):
        fill_from(model, tmp_path)


@pytest.mark.parametrize("per_layer", [False, True])
def test_a_table_of_distances_does_not_change_its_direction(per_layer: bool) -> None:
    config = ModelConfig(
        family="decoder",
        dim=8,
        layers=1,
        attention_heads=2,
        ffn_dim=8,
        heads={"lm": 1.0},
        position=PositionConfig(kind="t5", per_layer=per_layer),
    )
    part = "layers.0.position." if per_layer else "position."
    names = (f"family.stack.{part}table.weight", "family.stack.norm.weight")
    found = translate(replace(config, family="encoder"), config, dict.fromkeys(names, torch.zeros(1)))
    assert found.dropped == {names[0]}
    assert found.lacking == (f"family.stack.{part}",)
