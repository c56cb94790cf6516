"""int4 as a method: groups, and GPTQ with calibration rows."""

from typing import Final

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, dequantize_checkpoint
from tests.model.compression.compressed_models import compressed, logits, odd_checkpoint
from tests.model.small_models import batch_for

CASE: Final = {"group": 2}
MODEL: Final = {"dim": 18, "ffn_dim": 14}
"""Widths that an even group divides."""


def batches(count, first=0):
    return [batch_for("encoder", seed=seed, rows=8) for seed in range(first, first + count)]


def test_widths_must_be_multiples_of_the_group():
    with pytest.raises(ConfigurationError, match=r"groups of 64 inputs do not divide its width 18; set group=18"):
        compressed(odd_checkpoint(**MODEL), "int4", batches(1))
    with pytest.raises(ConfigurationError, match="use int8"):
        compressed(odd_checkpoint(), "int4", **CASE)


@pytest.mark.slow
def test_gptq_keeps_the_outputs_of_a_model_better():
    """Mean over models: one model may be lucky with the nearest integers."""
    ratios = []
    for seed in range(6):
        dense = odd_checkpoint(seed=seed, ffn_dim=36, dim=18)
        model, others = build_checkpoint(dense), batches(3, first=100)
        errors = []
        for rows in (batches(12), []):
            found = build_checkpoint(compressed(dense, "int4", rows, group=18).checkpoint)
            errors.append(sum(float((logits(found, batch) - logits(model, batch)).square().mean()) for batch in others))
        ratios.append(errors[0] / errors[1])
    assert sum(ratios) / len(ratios) < 0.95


def test_the_lines_say_how_it_was_rounded():
    dense = odd_checkpoint(**MODEL)
    assert compressed(dense, "int4", **CASE).lines[0] == "int4: 30 matrices, rounded to the nearest"
    assert (
        compressed(dense, "int4", batches(2), **CASE).lines[0] == "int4: 30 matrices, 30 rounded by GPTQ with 16 rows"
    )
    assert (
        compressed(dense, "int4", batches(2), embeddings=True, **CASE).lines[0]
        == "int4: 31 matrices, 30 rounded by GPTQ with 16 rows, 1 to the nearest"
    )


def test_a_layer_is_calibrated_behind_rounded_layers(monkeypatch):
    """The inputs of the last layer are those of a model whose earlier layers are rounded."""
    from clozeline.model.compression import _quantization

    seen, collect = {}, _quantization.sum_inputs

    def spy(model, paths, rows, statistic):
        seen.update(collect(model, paths, rows, statistic))
        return {path: seen[path].clone() for path in paths}

    monkeypatch.setattr(_quantization, "sum_inputs", spy)
    dense, rows = odd_checkpoint(**MODEL), batches(1)
    found = compressed(dense, "int4", rows, **CASE).checkpoint
    name = "family.stack.layers.4.attention.body.query"
    inputs = []
    model = build_checkpoint(dequantize_checkpoint(found))
    model.get_submodule(name).register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    logits(model, rows[0])
    real = torch.arange(11) < rows[0]["lengths"][:, None]
    states = inputs[0][real].double()
    assert torch.allclose(seen[name], states.T @ states, rtol=1e-4, atol=1e-4)
