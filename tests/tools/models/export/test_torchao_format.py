"""Folders with torchao's int8 weights: transformers loads them, with the integers of our folder."""

import json
import sys

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import (
    build_checkpoint,
    dequantize_checkpoint,
    export_checkpoint,
    quantize_checkpoint,
    read_checkpoint,
)
from clozeline.registry import choose
from clozeline.tools.models.export import torchao_format
from clozeline.tools.models.export.torchao_format import int8_weights, write_torchao
from tests.model.checkpoints.published import saved
from tests.model.quantization.quantized_models import checkpoint_of, chosen
from tests.model.small_models import VOCABULARY, built

LOADED = pytest.mark.filterwarnings("ignore")
"""torchao and transformers warn about names that they are going to change."""


def quantized(tmp_path, **entry):
    dense = checkpoint_of(built("encoder").eval())
    return quantize_checkpoint(dense, chosen({"name": "int8", **entry}))


@LOADED
@pytest.mark.parametrize("embeddings", [False, True])
def test_transformers_loads_the_integers(tmp_path, embeddings):
    pytest.importorskip("torchao")
    import transformers
    from torchao.quantization import Int8Tensor

    stored = quantized(tmp_path, embeddings=embeddings)
    names, dense = int8_weights(stored, tmp_path), dequantize_checkpoint(stored)
    export = write_torchao(tmp_path, export_checkpoint(dense), dense, names, None)
    (tmp_path / "config.json").write_text(json.dumps(export.config))
    loader = getattr(transformers, export.loader)
    model, report = loader.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    tensors = {name: value for name, value in model.state_dict().items() if isinstance(value, Int8Tensor)}
    ours = [tensor for name, tensor in stored.tensors.items() if f"{name.removesuffix('.integers')}.weight" in names]
    assert len(tensors) == len(names) == len(ours) > 0
    for integers in ours:
        assert any(torch.equal(integers, other.qdata) for other in tensors.values() if other.shape == integers.shape)
    # logits: both are int8 of the same weights, with activations rounded by slightly different scales
    ids = torch.randint(VOCABULARY, (3, 9), generator=torch.Generator().manual_seed(0))
    batch = {"input_ids": ids, "position_ids": torch.arange(9)[None].expand(3, -1), "lengths": torch.full((3,), 9)}
    with torch.no_grad():
        found, (expected,) = model.eval()(input_ids=ids).logits, build_checkpoint(stored).logits(batch).values()
    assert (found - expected).norm() < 0.03 * expected.norm()


def test_other_models_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"expected a model of .*method=int8.* holds no integers"):
        int8_weights(checkpoint_of(built("encoder")), tmp_path)
    int4 = quantize_checkpoint(checkpoint_of(built("encoder")), chosen({"name": "int4", "group": 4}))
    with pytest.raises(ConfigurationError, match="holds int4"):
        int8_weights(int4, tmp_path)


@LOADED
def test_transposed_weights_are_refused(tmp_path):
    pytest.importorskip("torchao")
    # GPT-2's class multiplies by transposed matrices
    saved(tmp_path / "gpt2", "gpt2")
    dense = read_checkpoint(tmp_path / "gpt2")
    stored = quantize_checkpoint(dense, choose("clozeline.model.quantization.formats", "int8"))
    with pytest.raises(ConfigurationError, match="stores transposed weights"):
        write_torchao(tmp_path, export_checkpoint(dense), dense, int8_weights(stored, tmp_path), None)


def test_without_torchao_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchao.core.config", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'clozeline\[torchao\]'"):
        torchao_format._import_torchao()
