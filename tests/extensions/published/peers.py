"""Small models of every type, as transformers builds and saves them, with random weights in every
parameter.

Types and their classes come from the registry; sizes and switches are drawn for the keys that a
type's tables name. `type_options` has what else a config.json needs.
"""

import inspect
import json
import random
from typing import NamedTuple

import torch
import transformers
from safetensors.torch import load_file, save_file

from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.extensions.published.conversion.key_map import KeyMap
from clozeline.extensions.published.conversion.type_selection import load_map
from clozeline.extensions.published.registries import MODEL_TYPES
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.declarations import declared
from tests.extensions.published.type_options import OPTIONS

VOCABULARY = 37
PLACES = 20
_MAPS = [MODEL_TYPES.load_class(name) for name in MODEL_TYPES.available()]
TYPES = sorted(one.model_type for one in _MAPS if one.read_only is None)
"""Types with classes in transformers."""
SCORES = {
    "masked_lm": ("prediction_logits", "logits"),
    "sentence": ("seq_relationship_logits", "sop_logits", "logits"),
    "lm": ("logits",),
    "token": ("logits",),
}
"""Names that classes give to the scores of each head; the first that an output has."""


class Peer(NamedTuple):
    """A class of transformers with pretraining heads."""

    key_map: KeyMap
    name: str
    heads: tuple[str, ...]


def classes_of(model_type):
    """The classes of a type by the words of a case: the type alone, or the type and the heads of
    another class."""
    whole = load_map(model_type)
    peers = [
        Peer(one, other.name, other.heads)
        for one in (whole, *whole.variants())
        for other in one.classes.with_heads
    ]

    first, *others = peers
    return {model_type: first} | {
        f"{model_type} {'+'.join(other.heads)}": other for other in others
    }


CLASSES = {case: peer for model_type in TYPES for case, peer in classes_of(model_type).items()}


def peer_of(case):
    """The class of a case; the type may have been added since `CLASSES` was made."""
    return CLASSES.get(case) or classes_of(type_of(case))[case]


def type_of(case):
    """The model type of a case of `CLASSES`: its first word."""
    return case.partition(" ")[0]


def own_options(model_type):
    """`options(draw, found)` of a type: of its own test file, else of `OPTIONS`, else none."""
    usual = OPTIONS.get(model_type, lambda draw, found: {})
    return declared(MODEL_TYPES.package, model_type.replace("-", "_"), "options", usual)


def options(case, seed):
    """Odd sizes and switches, drawn by the seed."""
    model_type = type_of(case)
    key_map = peer_of(case).key_map
    draw = random.Random(f"{model_type} {seed}")
    found = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    sizes = drawn_sizes(draw)
    for ours, theirs in reversed(list(key_map.configuration.fields.items())):
        found |= {theirs: sizes[ours]} if ours in sizes else {}
    found |= {key: draw.choice(values) for key, values in key_map.configuration.supported.items()}

    if key_map.configuration.activation is not None:
        found[key_map.configuration.activation] = draw.choice(
            sorted(key_map.configuration.activations)
        )

    return found | own_options(model_type)(draw, found)


def drawn_sizes(draw):
    """Values of our keys: a number of heads that divides every width, and switches."""
    heads = draw.choice([1, 3, 5])
    ffn = draw.choice([7, 20, 33])
    switches = (
        "tied",
        "emb_scale",
        "scale_by_depth",
        *(f"bias.{part}" for part in ("norm", "qkv", "ffn", "head")),
    )

    return {
        **{key: draw.choice([True, False]) for key in switches},
        "dim": heads * draw.choice([4, 6, 10]),
        "layers": draw.choice([1, 2, 3]),
        "decoder_layers": draw.choice([1, 2]),
        "attention_heads": heads,
        "kv_heads": heads,
        "head_dim": draw.choice([4, 6]),
        "decoder_attention_heads": draw.choice([1, 2, heads]),
        "ffn_dim": ffn,
        "decoder_ffn_dim": draw.choice([ffn, 11]),
        "emb_dim": 5,
        "out_dim": draw.choice([5, 7]),
        "type_vocab_size": draw.choice([1, 2]),
        "eps": draw.choice([1e-5, 1e-7]),
        "position.maximum": PLACES,
        "position.buckets": 8,
        "position.max_distance": 9,
    }


def peer(case, seed=0, **changes):
    """A model of transformers in evaluation mode.

    Every parameter and bias is drawn, since zeros hide mistakes.
    """
    settings = transformers.CONFIG_MAPPING[type_of(case)]
    return filled(
        peer_of(case).name, settings(**(options(case, seed) | changes), attn_implementation="eager")
    )


def filled(name, settings):
    """A model of a class of transformers, all of whose parameters are drawn."""
    theirs = getattr(transformers, name)(settings)
    draw = torch.Generator().manual_seed(3)
    buffers = [buffer for name, buffer in theirs.named_buffers() if name == "final_logits_bias"]
    # fixed waves stay
    learned = [parameter for parameter in theirs.parameters() if parameter.requires_grad]
    for parameter in learned + buffers:
        noise = torch.randn(parameter.shape, generator=draw)
        parameter.data = (
            noise * parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 1 + noise * 0.2
        )
    # the class reads the padding beside a token, ours does not
    if getattr(theirs.config, "trigram_input", False):
        theirs.get_input_embeddings().weight.data[theirs.config.pad_token_id] = 0
    return theirs.eval()


def by_saved_names(key_map, found):
    """What a class holds by the names of its parameters, by the names under which it saves them."""

    def name_of(name):
        other = next(
            (start for start in key_map.tensors.other_names if name.startswith(start)), None
        )
        return (
            name if other is None else key_map.tensors.other_names[other] + name.removeprefix(other)
        )

    return {name_of(name): value for name, value in found.items()}


def saved(folder, case, seed=0, **changes):
    theirs = peer(case, seed, **changes)
    theirs.save_pretrained(folder)
    return theirs


def export_to(folder, export):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(export.config))
    save_file(export.tensors, folder / "model.safetensors")
    return folder


def loaded(folder, name, **more):
    """The model that a class of transformers reads, and what it remarks about the tensors."""
    model, report = getattr(transformers, name).from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, attn_implementation="eager", **more
    )
    return model.eval(), {key: value for key, value in report.items() if value}


def stored(folder):
    return load_file(folder / "model.safetensors")


def edit_tensors(folder, edit):
    """Let a function change the tensors of a directory, in place or by what it returns."""
    tensors = stored(folder)
    save_file(edit(tensors) or tensors, folder / "model.safetensors", {"format": "pt"})


def same(before, after):
    """Whether both have the same names and the same bits."""
    return before.keys() == after.keys() and all(
        torch.equal(before[name], after[name]) for name in before
    )


def in_and_out(folder, theirs, **keys):
    """Read the folder `in`, export it, and read that: every bit stays, and the class loads without
    a remark.

    Returns what was read, its export, and the model that the class reads from the export.
    """
    checkpoint = read_checkpoint(folder / "in")
    export = export_checkpoint(checkpoint, **keys)
    out = export_to(folder / "out", export)

    assert same(stored(folder / "in"), stored(out))

    model, report = loaded(out, export.loader)

    assert (type(model), report) == (type(theirs), {})

    again = read_checkpoint(out)

    assert again.config == checkpoint.config
    assert same(again.tensors, checkpoint.tensors)
    assert same(again.unread, checkpoint.unread)
    assert json.dumps(export_checkpoint(again, **keys).config) == json.dumps(export.config)

    return checkpoint, export, model


def edit_config(folder, **changes):
    path = folder / "config.json"
    plain = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in plain.items() if value is not None}))


def rows(theirs, seed=5):
    """The same two rows for both sides: theirs by mask, ours by lengths and places."""
    draw = torch.Generator().manual_seed(seed)
    lengths = torch.tensor([11, 6])
    places = torch.arange(11).expand(2, 11)
    pad = theirs.config.pad_token_id
    ids = torch.randint(4, VOCABULARY, (2, 11), generator=draw).masked_fill(
        places >= lengths[:, None], pad
    )
    valid = places < lengths[:, None]
    ours = {"input_ids": ids, "position_ids": places, "lengths": lengths}
    their = {"input_ids": ids, "attention_mask": valid.long()}

    if getattr(theirs.config, "n_langs", 1) > 1:
        their["langs"] = ours["languages"] = torch.randint(
            0, theirs.config.n_langs, (2, 11), generator=draw
        )

    if theirs.config.is_encoder_decoder:
        target = torch.randint(4, VOCABULARY, (2, 7), generator=draw)
        ours |= {"decoder_input_ids": target, "decoder_position_ids": places[:, :7]}
        their |= {"decoder_input_ids": target}
        valid = torch.ones(2, 7, dtype=torch.bool)

    return ours, their, valid


def left_rows(theirs):
    """`rows` with the padding on the left.

    Places count from the first token, as `generate` counts them.
    """
    ours, their, valid = rows(theirs)
    left = ours["input_ids"].shape[1] - ours["lengths"]
    ids = torch.stack(
        [row.roll(int(shift)) for row, shift in zip(ours["input_ids"], left, strict=True)]
    )
    mask = their["attention_mask"].flip(1)
    places = (mask.cumsum(1) - 1).clamp(min=0)
    ours |= {"input_ids": ids, "position_ids": places, "left_padding": left}
    their |= {"input_ids": ids, "attention_mask": mask}
    reads_places = "position_ids" in inspect.signature(theirs.forward).parameters
    from_ids = theirs.config.model_type in ("camembert", "roberta", "xlm-roberta", "xlm-roberta-xl")
    return (
        ours,
        their | ({"position_ids": places} if reads_places and not from_ids else {}),
        (valid if theirs.config.is_encoder_decoder else mask.bool()),
    )


def scores(theirs, heads):
    """Their scores of each head on `rows`: at places that hold tokens, or of whole rows."""
    _, their, valid = rows(theirs)
    with torch.no_grad():
        output = theirs(**their)
    found = {head: next(output[name] for name in SCORES[head] if name in output) for head in heads}
    found |= {"token": found["token"][..., None]} if "token" in found else {}
    return {head: value[valid] if value.ndim > 2 else value for head, value in found.items()}


def difference(model, theirs):
    """The largest difference of logits of all heads, see `apart`."""
    ours, _, valid = rows(theirs)
    with torch.no_grad():
        logits = model.logits(ours)
    expected = scores(theirs, logits)
    found = {head: value[valid] if value.ndim > 2 else value for head, value in logits.items()}
    return max(apart(found[head], expected[head]) for head in found)


def apart(found, expected, valid=...):
    """The largest difference of valid scores.

    Of scores above 1, relative to the largest: rounding follows it.
    """
    assert found.shape == expected.shape
    assert found[valid].isfinite().all()  # `max` of Python would drop a NaN
    return ((found - expected)[valid].abs().max() / expected[valid].abs().max().clamp(min=1)).item()
