"""A method makes a smaller model that transformers loads.

Layers by name, and parameters cut to a smaller model.
"""

import dataclasses

import pytest
import torch

from clozeline.extensions.compression.registries import METHODS
from clozeline.model.layers.quantization import holds_integers, quantize_weight
from tests.contracts import contract
from tests.declarations import declared
from tests.extensions.compression.methods.compressed_models import model_of, odd_checkpoint
from tests.model.small_models import batch_for
from tests.refusals import refused

NAMES = METHODS.available()


def case(name):
    """`CASE` of a method's own test file: its options; no file: none are needed."""
    return declared("extensions.compression.methods", name, "CASE", {})


def dense_for(name):
    wide = {"dim": 96, "ffn_dim": 32} if name == "int4" else {}  # groups of 32 divide these
    return odd_checkpoint(**wide)


def result(name, dense):
    method = METHODS.resolve({"name": name, **case(name)}).build()
    batches = [batch_for("encoder", seed=seed) for seed in range(3)] if method.calibrates else []
    return method.compress(dense, batches)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@contract(METHODS)
def test_the_smaller_model_runs_and_the_given_one_stays(name, dtype):
    dense = dense_for(name)
    dense = dataclasses.replace(
        dense, tensors={key: tensor.to(dtype) for key, tensor in dense.tensors.items()}
    )
    before = {key: tensor.clone() for key, tensor in dense.tensors.items()}
    compressed = result(name, dense)

    assert all(torch.equal(before[key], tensor) for key, tensor in dense.tensors.items())

    if METHODS.load_class(name).quantization is None:
        assert {tensor.dtype for tensor in compressed.checkpoint.tensors.values()} == {dtype}

    assert compressed.lines

    scores = model_of(compressed.checkpoint).logits(batch_for("encoder"))["masked_lm"]

    assert scores.isfinite().all()
    assert sum(map(_bytes, compressed.checkpoint.tensors.values())) <= sum(
        map(_bytes, before.values())
    )


@contract(METHODS)
def test_the_result_depends_on_the_model_alone(name):
    first = result(name, dense_for(name))
    second = result(name, dense_for(name))
    assert first.lines == second.lines
    for key, tensor in first.checkpoint.tensors.items():
        assert torch.equal(_floats(tensor), _floats(second.checkpoint.tensors[key]))


INTEGERS = [name for name in NAMES if METHODS.load_class(name).quantization]


@pytest.mark.parametrize("name", INTEGERS)
def test_the_linear_maps_of_the_body_become_the_integers_of_the_method(name):
    dense = dense_for(name)
    found = result(name, dense).checkpoint
    modules = model_of(dense).family.named_modules(prefix="family")
    maps = {f"{path}.weight" for path, module in modules if type(module) is torch.nn.Linear}

    assert {key for key, tensor in found.tensors.items() if holds_integers(tensor)} == maps

    for key, tensor in found.tensors.items():
        expected = quantize_weight(dense.tensors[key], name) if key in maps else dense.tensors[key]
        assert torch.equal(_floats(tensor), _floats(expected)), key

    assert found.config == dense.config

    other = next(one for one in INTEGERS if one != name)
    trained = dataclasses.replace(
        dense, config=dataclasses.replace(dense.config, quantization=other)
    )

    with refused(f"quantization={other}, got {name}: use method={other}"):
        result(name, trained)


def _bytes(tensor):
    return tensor.qdata.nbytes + tensor.scale.nbytes if holds_integers(tensor) else tensor.nbytes


def _floats(tensor):
    return tensor.dequantize() if holds_integers(tensor) else tensor
