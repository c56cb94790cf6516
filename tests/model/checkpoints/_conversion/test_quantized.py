"""Checkpoints with stored integers: sizes, what they give back, and refusals."""

from dataclasses import replace

import pytest
import torch

from clozeline.errors import ConfigurationError, WeightsError
from clozeline.model.checkpoints import (
    build_checkpoint,
    dequantize_checkpoint,
    export_checkpoint,
    is_quantized,
    parameter_shapes,
    quantizable_weights,
    quantize_checkpoint,
    read_checkpoint,
)
from clozeline.model.quantization.formats.int4 import Int4
from clozeline.model.quantization.formats.int8 import Int8
from clozeline.tools.model_folder import write_imported, write_tensors
from tests.model.quantization.quantized_models import FORMATS, checkpoint_of, chosen, model_of, quantized
from tests.model.small_models import VOCABULARY, batch_for, small_config


@pytest.mark.parametrize("name", FORMATS)
def test_names_and_shapes_are_those_of_the_model(name):
    _, checkpoint = quantized(FORMATS[name])
    assert {key: tensor.shape for key, tensor in checkpoint.tensors.items()} == parameter_shapes(
        checkpoint.config, VOCABULARY
    )
    assert is_quantized(checkpoint)


@pytest.mark.parametrize("name", FORMATS)
def test_dequantized_weights_are_within_half_a_scale(name):
    model, checkpoint = quantized(FORMATS[name])
    restored = dequantize_checkpoint(checkpoint)
    assert not is_quantized(restored)
    assert restored.config == model.config
    assert restored.tensors.keys() == dict(model.named_parameters()).keys()
    for key, parameter in model.named_parameters():
        scales = checkpoint.tensors.get(f"{key.removesuffix('.weight')}.scales")
        if scales is None:
            assert restored.tensors[key] is checkpoint.tensors[key]
            continue
        largest = scales.float().amax(-1) if scales.dim() == 2 else scales
        assert ((restored.tensors[key] - parameter).abs() <= largest[:, None] / 2 * 1.001).all()


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_rounded_as_a_matrix_is(name, monkeypatch):
    """The rows of a matrix are rounded a few at a time, here five: the same integers and scales."""
    monkeypatch.setattr("clozeline.model.checkpoints._conversion.quantized._ROWS", 5)
    model, checkpoint = quantized(FORMATS[name])
    number_format = checkpoint.config.quantization.build()
    for key in quantizable_weights(checkpoint_of(model), number_format):
        path, weight = key.removesuffix(".weight"), model.get_parameter(key)
        integers, scales = number_format.quantize(weight)
        assert torch.equal(checkpoint.tensors[f"{path}.integers"], integers)
        assert torch.equal(checkpoint.tensors[f"{path}.scales"], scales)


@pytest.mark.parametrize(("number_format", "limit"), [(Int8(Int8.Options()), 0.27), (Int4(Int4.Options()), 0.16)])
def test_files_of_linear_maps_are_small(tmp_path, number_format, limit):
    """A file with the linear maps of a layer of the demo's body: 192 wide, gated 512."""
    shapes = [*[(192, 192)] * 4, (512, 192), (512, 192), (192, 512)]
    dense = {f"{number}.weight": torch.randn(shape) for number, shape in enumerate(shapes)}
    stored = {}
    for key, weight in dense.items():
        stored[f"{key}.integers"], stored[f"{key}.scales"] = number_format.quantize(weight)
    sizes = []
    for name, tensors in (("dense", dense), ("stored", stored)):
        write_tensors(tmp_path / name, tensors)
        sizes.append((tmp_path / name).stat().st_size)
    assert sizes[1] <= limit * sizes[0]


@pytest.mark.parametrize("name", FORMATS)
def test_a_folder_gives_back_the_model(tmp_path, name):
    _, checkpoint = quantized(FORMATS[name])
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "config.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    write_imported(tmp_path / "folder", checkpoint, tmp_path / "source")
    read = read_checkpoint(tmp_path / "folder")
    assert read.config == checkpoint.config
    assert all(torch.equal(read.tensors[key], tensor) for key, tensor in checkpoint.tensors.items())
    tensors = batch_for("encoder")
    with torch.no_grad():
        sides = [build_checkpoint(side).logits(tensors)["masked_lm"] for side in (checkpoint, read)]
    assert torch.equal(*sides)


def test_a_folder_of_other_integers_is_refused(tmp_path):
    _, checkpoint = quantized(FORMATS["int8"])
    (tmp_path / "config.json").write_text("{}")
    key = next(key for key in checkpoint.tensors if key.endswith(".scales"))
    broken = replace(checkpoint, tensors={**checkpoint.tensors, key: checkpoint.tensors[key] / 0})
    write_imported(tmp_path, broken, tmp_path)
    with pytest.raises(WeightsError, match=r"scales: .* values are nan or infinite"):
        read_checkpoint(tmp_path)


def test_an_export_holds_dequantized_weights():
    _, checkpoint = quantized(FORMATS["int8"])
    restored = dequantize_checkpoint(checkpoint)
    tensors = export_checkpoint(restored).tensors.values()
    assert all(tensor.is_floating_point() for tensor in tensors)


def test_a_quantized_model_is_refused():
    _, checkpoint = quantized(FORMATS["int8"])
    with pytest.raises(ConfigurationError, match="got integers of int8: quantizing them again"):
        quantize_checkpoint(checkpoint, chosen("int4"))


def test_a_model_trained_for_another_format_is_refused():
    config = small_config("encoder", quantization=chosen("int8"))
    checkpoint = checkpoint_of(model_of(config))
    with pytest.raises(ConfigurationError, match=r"trained for .*int8.* got .*int4.*: use the format"):
        quantize_checkpoint(checkpoint, chosen({"name": "int4", "group": 4}))
    assert is_quantized(quantize_checkpoint(checkpoint, chosen("int8")))


def test_a_family_without_the_key_is_refused():
    checkpoint = checkpoint_of(model_of(small_config("elmo")))
    with pytest.raises(ConfigurationError, match="the family elmo does not read this key"):
        quantize_checkpoint(checkpoint, chosen("int8"))


def test_rounded_tensors_are_taken_as_they_are():
    model = model_of(small_config("encoder"))
    checkpoint, entry = checkpoint_of(model), chosen("int8")
    name = quantizable_weights(checkpoint, entry.build())[0]
    given = torch.ones(checkpoint.tensors[name].shape, dtype=torch.int8), torch.ones(len(checkpoint.tensors[name]))
    made = quantize_checkpoint(checkpoint, entry, {name: given})
    assert made.tensors[f"{name.removesuffix('.weight')}.integers"] is given[0]
    assert dequantize_checkpoint(made).tensors[name].eq(1).all()
    assert dequantize_checkpoint(checkpoint) is checkpoint
