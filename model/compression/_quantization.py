"""Quantize a checkpoint for the methods int8 and int4, and say what stays in floating point."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from clozeline.model.checkpoints import Checkpoint, build_checkpoint, quantizable_weights, quantize_checkpoint
from clozeline.model.compression._calibration import sum_inputs
from clozeline.model.compression._method import Batch, Compressed
from clozeline.model.compression._parts import layer_of
from clozeline.model.heads._vocabulary_head import VocabularyHead
from clozeline.model.quantization.formats import Format
from clozeline.model.quantization.formats.int4 import Int4, pack
from clozeline.model.quantization.gptq import round_with_moments
from clozeline.registry import Chosen, find


def quantize(checkpoint: Checkpoint, chosen: Chosen, batches: Sequence[Batch] = ()) -> Compressed:
    """Return a checkpoint with stored integers, rounded by GPTQ if there are calibration rows."""
    rounded = round_by_gptq(checkpoint, chosen, batches) if batches else {}
    quantized = quantize_checkpoint(checkpoint, chosen, rounded)
    count = len(quantizable_weights(checkpoint, chosen.build()))
    how = f"{chosen.name}: {count} matrices"
    if rounded:
        how += f", {len(rounded)} rounded by GPTQ with {sum(len(batch['input_ids']) for batch in batches)} rows"
    if nearest := count - len(rounded):
        how += f", {nearest} to the nearest" if rounded else ", rounded to the nearest"
    return Compressed(quantized, (how, describe_tables(checkpoint, chosen.build())))


def describe_tables(checkpoint: Checkpoint, number_format: Format) -> str:
    """Return a line about the token table and the heads that are tied to it."""
    heads = {name: find("clozeline.model.heads", name) for name in checkpoint.config.heads if checkpoint.config.tied}
    tied = [name for name, head in heads.items() if issubclass(head, VocabularyHead)]
    head = f", and the tied head {', '.join(tied)}" if tied else ""
    if not number_format.options.embeddings:
        return f"left in fp32: norms, biases, heads, the token table{head}"
    reads = f"; the tied head {', '.join(tied)} reads the same integers" if tied else ""
    return f"left in fp32: norms, biases, tables of positions and types; the token table has a scale per row{reads}"


def round_by_gptq(checkpoint: Checkpoint, chosen: Chosen, batches: Sequence[Batch]) -> dict[str, tuple[Tensor, Tensor]]:
    """Return integers and scales of the linear maps by GPTQ, layer by layer.

    A layer is calibrated on what it reads behind the layers that are rounded already, as in section 4 of the paper.
    """
    number_format = chosen.build()
    assert isinstance(number_format, Int4), "the only format that is calibrated"
    group = number_format.options.group
    names = quantizable_weights(checkpoint, number_format)  # refuses groups that do not fit, before any work
    model = build_checkpoint(replace(checkpoint, config=replace(checkpoint.config, quantization=None)))
    modules = {name: model.get_submodule(name.removesuffix(".weight")) for name in names}
    linear = {name: module for name, module in modules.items() if isinstance(module, nn.Linear)}
    layers: dict[str, dict[str, str]] = {}  # names by path of the linear maps of each layer, in the order of the model
    for name in linear:
        layers.setdefault(layer_of(name), {})[name.removesuffix(".weight")] = name
    rounded: dict[str, tuple[Tensor, Tensor]] = {}
    for members in layers.values():
        moments = sum_inputs(model, members, batches, lambda x: x.T @ x)
        for path, name in members.items():
            if path not in moments:  # no row reaches it
                continue
            integers, scales = round_with_moments(linear[name].weight.detach(), moments.pop(path), group)
            rounded[name] = pack(integers), scales
            with torch.no_grad():
                linear[name].weight.copy_(number_format.dequantize(*rounded[name]))
    return rounded
