"""Promises of the map of every model type, with transformers' own classes as the oracle."""

import json

import pytest
import torch
import transformers
from safetensors.torch import load_file

from model.checkpoints import build_checkpoint, export_checkpoint, map_of_type, read_checkpoint
from model.checkpoints._conversion import parameter_shapes, their_shapes
from tests.model.checkpoints.published import (
    CLASSES,
    TYPES,
    VOCABULARY,
    difference,
    export_to,
    left_rows,
    loaded,
    options,
    rows,
    saved,
    scores,
    type_of,
)

CLOSE = 1e-5
LEFT = ("bert", "roberta", "distilbert", "modernbert", "gpt2", "openai-gpt", "llama", "t5", "mt5")
"""Types whose class reads rows that are padded on the left as it reads them alone."""


def stored(folder):
    return load_file(folder / "model.safetensors")


def test_every_type_has_a_peer():
    assert {type_of(case) for case in CLASSES} == set(TYPES)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", CLASSES)
def test_in_and_out_again(case, seed, tmp_path):
    """Our logits are theirs; what goes out again is what came in, bit for bit, and loads without a remark."""
    theirs = saved(tmp_path / "in", case, seed)
    checkpoint = read_checkpoint(tmp_path / "in")
    assert checkpoint.notes == ()
    assert difference(build_checkpoint(checkpoint), theirs) < CLOSE
    export = export_checkpoint(checkpoint)
    folder = export_to(tmp_path / "out", export)
    before, after = stored(tmp_path / "in"), stored(folder)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    model, report = loaded(folder, export.loader)
    assert (type(model), report) == (type(theirs), {})
    heads = checkpoint.config.heads
    again, expected = scores(model, heads), scores(theirs, heads)
    assert all(torch.equal(again[head], expected[head]) for head in heads)
    assert read_checkpoint(folder).config == checkpoint.config


@pytest.mark.parametrize("case", CLASSES)
def test_names_and_shapes_are_a_bijection(case):
    """Every parameter that the class saves is one of ours or a part of one, over odd sizes and switches."""
    key_map = map_of_type(type_of(case))
    config_class, model_class = CLASSES[case]
    for seed in range(8):
        settings = getattr(transformers, config_class)(**options(case, seed))
        with torch.device("meta"):
            theirs = getattr(transformers, model_class)(settings)
        marks = {name: None for name in theirs.state_dict() if name.endswith(tuple(key_map.marks.values()))}
        config = key_map.read_config(json.loads(settings.to_json_string(use_diff=False)), marks)
        ours = parameter_shapes(config, VOCABULARY)
        targets = key_map.targets(config, ours).values()
        assert len({(target.name, target.part) for target in targets}) == len(ours)
        others = {*key_map.ties(config), *key_map.constants(1)}
        shapes = {name: list(tensor.shape) for name, tensor in theirs.state_dict().items() if name not in others}
        assert their_shapes(key_map, config, ours) == shapes


@pytest.mark.parametrize("case", [case for case in CLASSES if type_of(case) not in ("bart", "mbart")])
def test_the_body_alone(case, tmp_path):
    """Hidden states of the class without a head; the poolers that two classes add are the only parameters not there."""
    theirs = saved(tmp_path / "in", case)
    checkpoint = read_checkpoint(tmp_path / "in")
    export = export_checkpoint(checkpoint, body_alone=True)
    model, report = loaded(export_to(tmp_path / "out", export), export.loader)
    missing = report.pop("missing_keys", ())
    assert all("pooler" in name for name in missing)
    assert not missing or "sentence" not in checkpoint.config.heads
    assert report == {}
    assert type(model).__name__ == map_of_type(type_of(case)).bare
    ours, their, _ = rows(theirs)
    family = build_checkpoint(checkpoint).family
    valid = their["attention_mask"].bool()
    with torch.no_grad():
        if checkpoint.config.architecture == "encoder_decoder":
            source = family.tokens(ours["input_ids"])
            hidden = family.encoder(source, ours["position_ids"], None, valid[:, None, None])
        else:
            hidden = family(ours)
        states = model(**{name: rows for name, rows in their.items() if "decoder" not in name}).last_hidden_state
    assert (states - hidden)[valid].abs().max() < CLOSE


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("case", LEFT)
def test_rows_padded_on_the_left(case, seed, tmp_path):
    theirs = saved(tmp_path, case, seed)
    model = build_checkpoint(read_checkpoint(tmp_path))
    ours, their, valid = left_rows(theirs)
    with torch.no_grad():
        (logits,) = model.logits(ours).values()
        assert (logits - theirs(**their).logits)[valid].abs().max() < CLOSE
        (blind,) = model.logits({name: value for name, value in ours.items() if name != "left_padding"}).values()
        assert (blind - theirs(**their).logits)[valid].abs().max() > 1e-3


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "t5"])
def test_half_precision_stays(model_type, tmp_path):
    saved(tmp_path / "first", model_type).to(torch.bfloat16).save_pretrained(tmp_path / "in")
    export = export_checkpoint(read_checkpoint(tmp_path / "in"))
    assert export.config["dtype"] == "bfloat16"
    before = stored(tmp_path / "in")
    assert all(torch.equal(export.tensors[name], before[name]) for name in before)
