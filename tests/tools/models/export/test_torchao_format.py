"""Folders with integers of torchao: transformers and our reader compute the same, which is what transformers makes."""

import json

import pytest
import torch
import transformers

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from clozeline.model.quantization import holds_integers
from clozeline.registry import choose
from clozeline.tools.model_folder import write_imported
from clozeline.tools.models.export.torchao_format import integers_of_class, write_torchao
from tests.model.checkpoints.published import loaded, rows, saved

pytest.importorskip("torchao")
pytestmark = pytest.mark.filterwarnings("ignore")

SIZES = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 96}
T5 = {"d_model": 64, "num_heads": 2, "d_kv": 32, "d_ff": 96, "num_layers": 2, "num_decoder_layers": 2}
TYPES = {
    "bert": SIZES,
    "llama": SIZES | {"num_key_value_heads": 1, "head_dim": 32},
    "gpt_neox": SIZES,  # queries, keys and values of each head are rows of one matrix
    "modernbert": SIZES,
    "t5": T5,
}


def configs():
    from torchao import quantization

    return {
        "int8": quantization.Int8WeightOnlyConfig(),
        "int8_dynamic": quantization.Int8DynamicActivationInt8WeightConfig(),
        "int4": quantization.IntxWeightOnlyConfig(torch.int4, quantization.PerGroup(32)),
    }


def quantized(tmp_path, model_type, kind):
    """A folder with integers, and its export."""
    saved(tmp_path / "dense", model_type, **TYPES.get(model_type, {}))
    dense = read_checkpoint(tmp_path / "dense")
    (tmp_path / "integers").mkdir()
    export = write_torchao(tmp_path / "integers", export_checkpoint(dense), dense, kind)
    (tmp_path / "integers" / "config.json").write_text(json.dumps(export.config))
    return tmp_path / "integers", export


@pytest.mark.parametrize("kind", ["int8", "int8_dynamic", "int4"])
@pytest.mark.parametrize("model_type", TYPES)
def test_transformers_computes_what_we_do(tmp_path, model_type, kind):
    folder, export = quantized(tmp_path, model_type, kind)
    theirs, remarks = loaded(folder, export.loader)
    assert not remarks
    stored = read_checkpoint(folder, quantized=True)
    assert any(map(holds_integers, stored.tensors.values()))
    # what transformers itself makes of the dense model, except for the matrices that stay
    left = export.config["quantization_config"]["modules_to_not_convert"]
    rounding = transformers.TorchAoConfig(configs()[kind], modules_to_not_convert=left)
    expected, _ = loaded(tmp_path / "dense", export.loader, quantization_config=rounding)
    ours, their, valid = rows(theirs)
    with torch.no_grad():
        scores = [model(**their).logits[valid] for model in (theirs, expected)]
        (found,) = build_checkpoint(stored).logits(ours).values()
        (dense,) = build_checkpoint(read_checkpoint(tmp_path / "dense")).logits(ours).values()
    limit = 1e-5
    if kind == "int8_dynamic":  # an input may round to the next integer; T5's logits differ by 1.4e-2
        limit = 2e-2 if model_type == "t5" else 1e-2
    held = theirs.state_dict()
    for name, tensor in expected.state_dict().items():
        assert holds_integers(tensor) == holds_integers(held[name])
        pairs = [(tensor.qdata, held[name].qdata), (tensor.scale, held[name].scale)] if holds_integers(tensor) else []
        assert all(torch.equal(*pair) for pair in pairs or [(tensor, held[name])])
    assert (scores[1] - scores[0]).norm() <= limit * scores[0].norm()
    assert (found[valid] - scores[0]).norm() <= limit * scores[0].norm()
    assert (dense[valid] - scores[0]).norm() > 1e-3 * scores[0].norm()


@pytest.mark.parametrize("kind", ["int8", "int8_dynamic", "int4"])
def test_our_own_format_gives_back_the_integers(tmp_path, kind):
    saved(tmp_path / "dense", "gpt_neox", **SIZES)
    dense = read_checkpoint(tmp_path / "dense")
    stored = choose("clozeline.model.compression", kind).build().compress(dense, ()).checkpoint
    (tmp_path / "ours").mkdir()
    write_imported(tmp_path / "ours", stored, tmp_path / "dense")
    found = read_checkpoint(tmp_path / "ours", quantized=True).tensors
    assert found.keys() == stored.tensors.keys()
    for name, tensor in stored.tensors.items():
        parts = ("qdata", "scale") if holds_integers(tensor) else ("data",)
        assert all(torch.equal(getattr(tensor, part), getattr(found[name], part)) for part in parts)
    with pytest.raises(ConfigurationError, match="neither trained nor converted"):
        read_checkpoint(tmp_path / "ours")


def test_transposed_weights_are_refused(tmp_path):
    saved(tmp_path / "gpt2", "gpt2")  # its class multiplies by transposed matrices
    dense = read_checkpoint(tmp_path / "gpt2")
    with pytest.raises(ConfigurationError, match="type gpt2 multiplies by transposed weights"):
        integers_of_class(dense, "int8")
