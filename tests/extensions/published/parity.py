"""Largest differences between our models and the classes of transformers, for every model type.

    python -m tests.extensions.published.parity [--seeds 101 202 303] [--types bert t5] [--json FILE]

A class of transformers with odd sizes and switches, drawn by the seed, and every parameter drawn.
In: the logits of what we read from its folder. Out: the logits of what transformers reads from our
export. Loss: of five labels. Gradients: of this loss, relative to the largest entry of all. Both in
float64, also where a class asks for float32: only its tables are rounded then. Round trip: tensors
whose bits change by import and export. Generation: greedy tokens that differ, of 18. Logits above 1
are compared relative to the largest.
"""

import math
import sys
import tempfile
import warnings
from pathlib import Path

from benchmarks.harness import parser, print_table, verdict, write_json

import torch
from torch.nn import functional as F
from transformers.utils import logging

from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.extensions.published.conversion.tensor_files import read_tensors
from clozeline.extensions.published.conversion.tensor_layouts import import_tensors
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from tests.extensions.published import peers as published
from tests.model.closeness import ComputesInFloat64

LIMIT = 1e-5
COLUMNS = ("in", "out", "loss", "gradients", "round trip", "generation")
PROMPTS = [[5, 6, 7], [9, 30, 11, 8, 20, 4, 17]]
NEW_TOKENS = 9


def compare(model_type, seed):
    """Return the differences of one checkpoint by column.

    Generation only of models that generate.
    """
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "in"
        target = Path(temporary) / "out"
        theirs = published.saved(source, model_type, seed)
        checkpoint = read_checkpoint(source)
        model = build_checkpoint(checkpoint)
        published.export_to(target, export_checkpoint(checkpoint))
        again, remarks = published.loaded(target, type(theirs).__name__)
        before = read_tensors(source)[0]
        after = read_tensors(target)[0]
        found = {
            "in": published.difference(model, theirs),
            "out": logits_apart(again, theirs, tuple(model.heads)),
        }
        found["out"] = math.inf if remarks else found["out"]
        changed = [
            name for name in {*before, *after} if not is_equal(before.get(name), after.get(name))
        ]
        found["round trip"] = len(changed)
        if model.config.architecture != "encoder":
            found["generation"] = generated_apart(model, theirs)
        loss, gradients = loss_and_gradients(model, theirs, published.peer_of(model_type).key_map)
        return found | {"loss": loss, "gradients": gradients}


def is_equal(first, second):
    return (
        first is not None
        and second is not None
        and first.dtype == second.dtype
        and torch.equal(first, second)
    )


def logits_apart(again, theirs, heads):
    """Return the largest difference of the logits of two models of transformers."""
    found = published.scores(again, heads)
    expected = published.scores(theirs, heads)
    return max(published.apart(found[head], expected[head]) for head in expected)


def loss_and_gradients(model, theirs, key_map):
    """Compare the loss of labels of the head over the vocabulary, and the gradients of all
    parameters, in float64."""
    model.double().zero_grad()
    theirs.double().zero_grad()
    head = next(name for name in ("masked_lm", "lm") if name in model.heads)
    # one row without padding: in float64, the classes give nan where a window holds only padding
    ours, their = (
        {name: rows[:1] for name, rows in one.items()} for one in published.rows(theirs)[:2]
    )
    index = torch.tensor([0, 1, 2, 4, 6])
    draw = torch.Generator().manual_seed(len(index))
    labels = torch.randint(4, published.VOCABULARY, (len(index),), generator=draw)

    with ComputesInFloat64():
        loss = model(
            ours | {"label_index": index, "label_ids": labels, "row_weight": torch.ones(1)}
        )[head].total
        output = theirs(**their)

    logits = next(output[name] for name in published.SCORES[head] if name in output)
    wanted = F.cross_entropy(logits.flatten(0, 1)[index], labels, reduction="sum")
    loss.backward()
    wanted.backward()
    grown = {name: own.grad for name, own in model.named_parameters() if own.grad is not None}
    every = theirs.named_parameters(remove_duplicate=False)  # a tied tensor has two names
    known = {name: own.grad for name, own in every if own.grad is not None}
    known = published.by_saved_names(key_map, known)
    shared = {
        name
        for name, target in key_map.tensors.targets(model.config, grown).items()
        if target.name in known
    }

    expected = import_tensors(key_map, model.config, known, shared)
    scale = max(gradient.abs().max().item() for gradient in expected.values())
    # a gradient that a class lacks is zero, but that of a bias of the scores, which it may hold as
    # a buffer
    own = {
        name: grown[name]
        for name in grown
        if name in shared or not name.endswith("projection.bias")
    }

    apart = max(
        (gradient - expected.get(name, 0.0)).abs().max().item() for name, gradient in own.items()
    )
    return abs(loss.item() - wanted.item()) / abs(wanted.item()), apart / scale


def generated_apart(model, theirs):
    """Return the number of greedy tokens that differ; ours with a cache, theirs without."""
    settings = theirs.generation_config
    settings.eos_token_id = settings.forced_eos_token_id = settings.forced_bos_token_id = None
    paired = theirs.config.is_encoder_decoder
    start = {"decoder_start": theirs.config.decoder_start_token_id} if paired else {}
    differing = 0

    for prompt, found in zip(
        PROMPTS, generate(model, PROMPTS, Decoding(max_tokens=NEW_TOKENS), **start), strict=True
    ):
        if paired:
            whole = theirs.generate(
                torch.tensor([prompt]), max_new_tokens=NEW_TOKENS, do_sample=False, use_cache=False
            )
            expected = whole[0, -NEW_TOKENS:].tolist()
        else:  # by its scores: `generate` gives RoBERTa's decoders other positions than `forward` does
            expected = []
            for _ in range(NEW_TOKENS):
                expected.append(
                    int(theirs(torch.tensor([[*prompt, *expected]])).logits[0, -1].argmax())
                )

        differing += sum(own != other for own, other in zip(found.ids, expected, strict=True))

    return differing


def measure(types, seeds, tell):
    """Return the largest difference over the seeds by type and column."""
    table = {}

    for model_type in types:
        found = [compare(model_type, seed) for seed in seeds]
        table[model_type] = {
            name: max(one[name] for one in found) for name in COLUMNS if name in found[0]
        }
        tell(f"{model_type}: {table[model_type]}")

    return table


def shown(column, value):
    if value is None:
        return "–"
    return (
        f"{value:.0f}"
        if column in ("round trip", "generation")
        else f"{value:.1e}"
        if value
        else "0"
    )


def main(arguments=None):
    """Print the table and return 1 if a difference exceeds the limit."""
    text = "model types; default: all that transformers has"
    options = parser(__doc__, seeds=[101, 202, 303], types=([""], text)).parse_args(arguments)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    warnings.simplefilter("ignore")
    types = published.TYPES if options.types == [""] else options.types
    table = measure(types, options.seeds, lambda line: print(line, file=sys.stderr))
    holds = {one: all(value <= LIMIT for value in row.values()) for one, row in table.items()}
    cells = [
        [f"`{one}`", *(shown(name, row.get(name)) for name in COLUMNS), verdict(holds[one])]
        for one, row in table.items()
    ]
    print_table(("type", *COLUMNS, "within 1e-5"), cells)
    write_json(options.json, {"seeds": options.seeds, "limit": LIMIT, "types": table})
    return int(not all(holds.values()))


if __name__ == "__main__":
    raise SystemExit(main())
