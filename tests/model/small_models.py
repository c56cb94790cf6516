"""Small models and batches that the model tests share."""

import dataclasses

import torch

from clozeline.columns import DECODER_TEXT, SAMPLE_WORDS
from clozeline.model import registries
from clozeline.model.build import build_model
from clozeline.tools.start.contracts.heads import VOCABULARY, draw_rows
from tests.declarations import declared

FAMILIES = ("encoder", "decoder", "encoder_decoder")
RECURRENT = ("awd_lstm", "elmo")
"""Families without attention, which read rows like a decoder's."""
SPELLINGS = [f"{number}é".encode() for number in range(VOCABULARY)]

HEADS = registries.HEADS.available()


HEAD_KEYS = {
    "classification": {"classes": 3, "hidden": "tanh"},
    "corrective": {"copy_weight": 3.0},
    "multiple_choice": {"hidden": "tanh"},
    "regression": {"pool": "mean"},
    "similarity": {"group_size": 3},
    "tagging": {"classes": VOCABULARY},
}


def head_keys(name):
    """Keys of a head that suit small batches: `SMALL` of its own test file, if it has one."""
    return declared("model.heads", name, "SMALL", HEAD_KEYS.get(name, {}))


def small_config(family, /, **changes):
    """A model of a few thousand parameters with a token table 24 wide, in the sizes of `SMALL` of
    its own test file.

    A family without one is as the family that is named for its architecture: a BERT, Llama or T5.
    Every part of the core occurs in one of these.
    """
    kind = registries.FAMILIES.load_class(family)
    sizes = {"dim": 24, "layers": 2, "attention_heads": 4, "ffn_dim": 40}
    required = {
        field.name
        for field in dataclasses.fields(kind.Options)
        if field.default is dataclasses.MISSING
    }

    keys = {"family": family} | {key: size for key, size in sizes.items() if key in required}
    usual = declared("clozeline.model.families", kind.architecture, "SMALL", {})
    return kind.Options(
        **(keys | declared("clozeline.model.families", family, "SMALL", usual) | changes)
    )


def batch_for(family, seed=0, rows=4, columns=11, labels=True, lengths=None):
    """A padded batch with two labels a row (none, if not `labels`), filled by the generator of
    `seed`."""
    draw = torch.Generator().manual_seed(seed)
    if lengths is None:
        lengths = torch.randint(3, columns + 1, (rows,), generator=draw)
        lengths[0] = columns

    lengths = torch.as_tensor(lengths)
    rows = len(lengths)
    tensors = draw_rows(draw, rows, columns, lengths)
    labeled = columns
    if registries.FAMILIES.load_class(family).architecture == "encoder_decoder":
        labeled = columns - 2
        tensors |= draw_rows(draw, rows, labeled, lengths.clamp(max=labeled), DECODER_TEXT)

    index = torch.tensor(
        [row * labeled + place for row in range(rows) for place in (0, 2)] if labels else []
    )
    tensors["label_index"] = index.long()
    tensors["label_ids"] = torch.randint(1, VOCABULARY, (len(index),), generator=draw)
    tensors["row_weight"] = torch.ones(rows)
    if SAMPLE_WORDS in registries.FAMILIES.load_class(family).reads:
        tensors["sample_words"] = torch.randint(1 << 32, (len(index),), generator=draw)
    return tensors


def states(network, tensors):
    with torch.no_grad():
        return network.family(tensors)


def changed(tensors, name, row, place):
    """The batch with another id at one place."""
    ids = tensors[name].clone()
    ids[row, place] = (ids[row, place] + 1) % VOCABULARY
    return tensors | {name: ids}


def built(family, seed=0, **changes):
    """A small model, its weights drawn from the seed."""
    torch.manual_seed(seed)
    return build_model(small_config(family, **changes), VOCABULARY, {"pad": 0}, SPELLINGS)


def only(losses):
    (loss,) = losses.values()
    return loss


def total(network, tensors):
    return only(network(tensors)).total


def weighted_batch():
    """Causal rows, masked rows with weight m / k and count m, a filler row, and a row without
    labels."""
    tensors = batch_for("encoder", lengths=[11, 11, 9, 8, 10, 11])
    places = [
        range(10),
        (1, 4),
        (0, 2, 5),
        (3,),
        (),
        (0, 7, 8, 9),
    ]
    tensors["label_index"] = torch.tensor(
        [row * 11 + place for row, of in enumerate(places) for place in of]
    )
    tensors["label_ids"] = torch.arange(len(tensors["label_index"])) % VOCABULARY
    counts = torch.tensor([10, 10, 8, 8, 7, 10])
    weights = [
        10 / 10,
        10 / 2,
        8 / 3,
        8 / 1,
        0,
        10 / 4,
    ]
    tensors["label_weight"] = torch.tensor(
        [weight for weight, of in zip(weights, places, strict=True) for _ in of]
    )
    attention = torch.tensor([1, 0, 0, 0, 1, 0])
    prefix = torch.zeros(6, dtype=torch.int64)
    tensors |= {"label_count": counts, "attention": attention, "prefix_length": prefix}
    tensors["row_weight"][3] = 0
    return tensors
