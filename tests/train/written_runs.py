"""Run directories with random weights, written without a training, and models in memory that are
opened runs."""

from itertools import pairwise

import torch
import yaml
from safetensors.torch import save_file

from clozeline.files import file_hash
from clozeline.model.build import build_model
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.pipeline.shards import open_shards
from clozeline.train.checkpoint.stored_checkpoint import (
    FileRecord,
    Index,
    ParameterRecord,
    part_name,
)
from clozeline.train.checkpoint.trained_model import TrainedModel, read_config
from clozeline.train.data.sets.recorded_sets import record_sets
from clozeline.train.data.stream.phases import open_phases
from tests.tools.small_run import example_sets
from tests.train.synthetic import plain_config

BERT = {
    "model__type_vocab_size": 2,
    "model__norm_place": "post",
    "model__final_norm": False,
    "model__emb_norm": True,
    "model__eps": 1e-12,
}
"""Keys of a run that transformers has a class for."""


def write_run(run, shard_sets, steps, parts, label="masked_lm", **changes):
    """Write a run directory with the same model at each step; return the model."""
    return write_run_on(run, example_sets(shard_sets)[label][0], steps, parts, **changes)


def write_run_on(run, manifest, steps, parts, **changes):
    """The same, of a run that any set was made for."""
    settings = {
        "data__shards": str(manifest),
        "output": str(run),
        "model__position": {"maximum": 64},
    }

    plain = plain_config(**settings | changes)
    run.mkdir(parents=True, exist_ok=True)
    (run / "config.yaml").write_text(yaml.safe_dump(plain))
    config = read_config(run)
    facts = open_shards(manifest).manifest.tokenizer
    record_sets(run, config.data, open_phases(config.data), facts.fingerprint)
    torch.manual_seed(5)
    model = build_model(config.model, facts.vocab_size, facts.special_ids)
    tensors = [{} for _ in range(parts)]
    records = {}

    for name, parameter in model.named_parameters():
        flat = parameter.detach().reshape(-1)
        slices = []
        bounds = [len(flat) * part // parts for part in range(parts + 1)]
        for part, (first, last) in enumerate(pairwise(bounds)):
            if first < last:
                tensors[part][f"weight/{name}"] = flat[first:last].clone()
                slices.append((part, first, last - first))

        records[name] = ParameterRecord(list(parameter.shape), "decay", ["weight"], slices)

    for step in steps:
        folder = run / "checkpoints" / f"step-{step:08d}"
        folder.mkdir(parents=True)
        for part, content in enumerate(tensors):
            save_file(content, folder / part_name(part))
        names = [part_name(part) for part in range(parts)]
        files = {
            name: FileRecord((folder / name).stat().st_size, file_hash(folder / name))
            for name in names
        }
        Index({"step": step, "samples": 8 * step}, {}, records, [], files).write(folder)
        (folder.parent / "latest").write_text(f"{folder.name}\n")

    return model


def opened(model, folder, sets):
    """A model in memory as the opened model of a folder with its tokenizer."""
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return TrainedModel(
        folder, Checkpoint(model.config, model.vocab_size, weights, {}, None, ()), sets
    )
