"""A method makes a smaller model that transformers loads; layers by name, and parameters cut to a smaller model."""

import dataclasses

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.compression import Method
from clozeline.model.compression._method import split_name
from clozeline.model.layers.quantization import holds_integers
from clozeline.registry import choose, find, names
from tests.declarations import declared
from tests.model.compression.compressed_models import model_of, odd_checkpoint
from tests.model.small_models import batch_for
from tests.temporary_module import temporary_module

NAMES = names("clozeline.model.compression")

UNCHANGED = """
from clozeline.model.compression._method import Compressed, Method
from pydantic.dataclasses import dataclass

class Unchanged(Method):
    \"\"\"Change nothing.\"\"\"

    claim = "nothing (arXiv 0000.00000)"

    @dataclass(frozen=True)
    class Options:
        \"\"\"No options.\"\"\"

    def compress(self, checkpoint, batches):
        return Compressed(checkpoint, ("nothing",))
"""


def case(name):
    """`CASE` of a method's own test file: its options; no file: none are needed."""
    return declared("model.compression", name, "CASE", {})


def dense_for(name):
    """A model of odd sizes."""
    wide = {"dim": 96, "ffn_dim": 32} if name == "int4" else {}  # groups of 32 divide these
    return odd_checkpoint(**wide)


def result(name, dense):
    method = choose("clozeline.model.compression", {"name": name, **case(name)}).build()
    batches = [batch_for("encoder", seed=seed) for seed in range(3)] if method.calibrates else []
    return method.compress(dense, batches)


def test_a_new_file_is_tested_at_once(tmp_path):
    with temporary_module("clozeline.model.compression", "unchanged", UNCHANGED, tmp_path):
        assert {"unchanged", *NAMES} == set(names("clozeline.model.compression"))
        test_a_method_says_what_its_paper_claims("unchanged")
        test_the_smaller_model_runs_and_the_given_one_stays("unchanged", torch.float32)
        test_the_result_depends_on_the_model_alone("unchanged")


@pytest.mark.parametrize("name", NAMES)
def test_a_method_says_what_its_paper_claims(name):
    kind = find("clozeline.model.compression", name)
    assert issubclass(kind, Method)
    assert kind.__doc__
    assert any(character.isdigit() for character in kind.claim)
    assert dataclasses.is_dataclass(kind.Options)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", NAMES)
def test_the_smaller_model_runs_and_the_given_one_stays(name, dtype):
    dense = dense_for(name)
    dense = dataclasses.replace(dense, tensors={key: tensor.to(dtype) for key, tensor in dense.tensors.items()})
    before = {key: tensor.clone() for key, tensor in dense.tensors.items()}
    compressed = result(name, dense)
    assert all(torch.equal(before[key], tensor) for key, tensor in dense.tensors.items())
    if find("clozeline.model.compression", name).quantization is None:
        assert {tensor.dtype for tensor in compressed.checkpoint.tensors.values()} == {dtype}
    assert compressed.lines
    scores = model_of(compressed.checkpoint).logits(batch_for("encoder"))["masked_lm"]
    assert scores.isfinite().all()
    assert sum(map(_bytes, compressed.checkpoint.tensors.values())) <= sum(map(_bytes, before.values()))


@pytest.mark.parametrize("name", NAMES)
def test_the_result_depends_on_the_model_alone(name):
    first, second = result(name, dense_for(name)), result(name, dense_for(name))
    assert first.lines == second.lines
    for key, tensor in first.checkpoint.tensors.items():
        assert torch.equal(_floats(tensor), _floats(second.checkpoint.tensors[key]))


def _bytes(tensor):
    return tensor.qdata.nbytes + tensor.scale.nbytes if holds_integers(tensor) else tensor.nbytes


def _floats(tensor):
    return tensor.dequantize() if holds_integers(tensor) else tensor


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("family.stack.layers.12.attention.norm.bias", ("family.stack.layers.", 12, "attention.norm.bias")),
        ("family.decoder.layers.0.cross.body.key.bias", ("family.decoder.layers.", 0, "cross.body.key.bias")),
        ("family.layers.3.norm.weight", ("family.layers.", 3, "norm.weight")),
        ("family.tokens.weight", None),
        ("heads.masked_lm.layers.1.weight", None),
    ],
)
def test_the_layer_of_a_parameter_is_in_its_name(name, parts):
    assert split_name(name) == parts


def rows():
    return choose("clozeline.model.compression", {"name": "rows", "keep": 7}).build()


def test_a_configuration_changes_and_loses_keys():
    dense = odd_checkpoint(head_dim=5)
    config = rows().cut(dense, lambda name: dense.tensors[name], eps=0.01, head_dim=None).config
    assert (config.eps, config.head_dim, dense.config.head_dim) == (0.01, None, 5)
    with pytest.raises(ConfigurationError, match="rows: model: attention_heads: 2 heads do not divide"):
        rows().cut(odd_checkpoint(), lambda name: dense.tensors[name], attention_heads=2)


def test_a_tensor_of_another_shape_is_refused():
    dense = odd_checkpoint()
    with pytest.raises(ConfigurationError, match=r"expected shape \[7, 15\]"):
        rows().cut(dense, lambda name: dense.tensors[name], ffn_dim=7)
