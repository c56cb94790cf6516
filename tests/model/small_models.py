"""Small models and batches that the model tests share."""

import torch

from model.build import build_model
from model.config import BiasConfig, InitConfig, PositionConfig
from model.initialisation import initialise
from model.registry import find

VOCABULARY = 37

FAMILIES = ("encoder", "decoder", "encoder_decoder")
RECURRENT = ("awd_lstm", "elmo")
"""Families without attention, which read rows like a decoder's."""
SPELLINGS = [f"{number}é".encode() for number in range(VOCABULARY)]

ENCODER_HEADS = {
    "bidirectional_lm": {},
    "classification": {"classes": 3, "hidden": "tanh"},
    "corrective": {"copy_weight": 3.0},
    "lm": {},
    "masked_lm": {},
    "multiple_choice": {"hidden": "tanh"},
    "regression": {"pool": "mean"},
    "regularised_lm": {"activation_penalty": 0.5},
    "sentence": {},
    "similarity": {"group_size": 3, "temperature": 0.5},
    "span": {},
    "span_boundary": {"max_span_tokens": 2},
    "tagging": {"classes": VOCABULARY},
    "token": {},
}
"""Every head that reads an encoder, with options that suit small batches."""


def small_config(family, /, **changes):
    """A BERT, Llama or T5 of a few thousand parameters; every part of the core occurs in one of them."""
    if family in RECURRENT:
        return _recurrent_config(family, **changes)
    keys = {"family": family, "dim": 24, "layers": 2, "attention_heads": 4, "ffn_dim": 40}
    if family in ("encoder", "replaced_tokens"):
        keys |= {
            "norm_place": "post",
            "final_norm": False,
            "emb_norm": True,
            "type_vocab_size": 2,
            "heads": {"masked_lm": 1.0},
        }
        if family == "replaced_tokens":
            sizes = {"layers": 1, "dim": 18, "attention_heads": 3, "ffn_dim": 20}
            keys |= {"generator": sizes, "heads": {"masked_lm": 1.0, "token": 50.0}}
    elif family == "xlnet":
        keys |= {"norm_place": "post", "final_norm": False, "position": PositionConfig(kind="sinusoidal")}
        keys |= {"bias": BiasConfig(qkv=False, out=False), "heads": {"masked_lm": {"transform": False}}}
    elif family == "mobilebert":
        keys |= {"norm_place": "post", "final_norm": False, "emb_norm": True, "type_vocab_size": 2}
        keys |= {"activation": "relu", "bottleneck_dim": 12, "feed_forwards": 2, "heads": {"masked_lm": 1.0}}
    elif family == "decoder":
        keys |= {"norm": "rms", "activation": "silu", "gated": True, "kv_heads": 2, "heads": {"lm": 1.0}}
        keys |= {"bias": BiasConfig(qkv=False, out=False, ffn=False), "position": PositionConfig(kind="rope")}
    else:
        keys |= {
            "norm": "rms",
            "activation": "relu",
            "head_dim": 5,
            "qk_scale": 1.0,
            "out_scale": True,
            "heads": {"lm": 1.0},
        }
        keys |= {"bias": BiasConfig(qkv=False, out=False, ffn=False), "decoder_layers": 3}
        keys |= {"position": PositionConfig(kind="t5", buckets=8, max_distance=12), "init": InitConfig(scheme="t5")}
    return find("model.families", family).Options(**(keys | changes))


def _recurrent_config(family, **changes):
    """An AWD-LSTM or ELMo whose token table is 24 wide."""
    if family == "awd_lstm":
        penalties = {"activation_penalty": 0.02, "change_penalty": 0.01}
        keys = {"dim": 24, "layers": 3, "cell_dim": 20, "heads": {"regularised_lm": penalties}}
    else:
        keys = {"dim": 48, "layers": 2, "cell_dim": 10, "heads": {"bidirectional_lm": 1.0}}
        keys |= {"max_characters": 7, "character_dim": 3, "filters": ((1, 4), (3, 5)), "highways": 2}
    return find("model.families", family).Options(**({"family": family} | keys | changes))


def batch_for(family, seed=0, rows=4, columns=11, labels=True, lengths=None):
    """A padded batch with two labels a row (none, if not `labels`), filled by the generator of `seed`."""
    draw = torch.Generator().manual_seed(seed)
    if lengths is None:
        lengths = torch.randint(3, columns + 1, (rows,), generator=draw)
        lengths[0] = columns
    lengths = torch.as_tensor(lengths)
    rows = len(lengths)
    tensors = _rows(draw, rows, columns, lengths, "")
    labelled = columns
    if family == "encoder_decoder":
        labelled = columns - 2
        tensors |= _rows(draw, rows, labelled, lengths.clamp(max=labelled), "decoder_")
    index = torch.tensor([row * labelled + place for row in range(rows) for place in (0, 2)] if labels else [])
    tensors["label_index"] = index.long()
    tensors["label_ids"] = torch.randint(1, VOCABULARY, (len(index),), generator=draw)
    tensors["row_weight"] = torch.ones(rows)
    if family == "replaced_tokens":
        tensors["sample_words"] = torch.randint(1 << 32, (len(index),), generator=draw)
    return tensors


def full_batch(seed=0, lengths=(11, 8, 11, 3, 9, 6)):
    """Rows that hold what every head of encoders reads: two masked spans, classes, numbers, a second view of each row.

    The last row has weight 0; one row has neither class nor number nor second view nor spans.
    """
    tensors = batch_for("encoder", seed=seed, lengths=lengths)
    rows, columns = tensors["input_ids"].shape
    draw = torch.Generator().manual_seed(seed + 1)
    long = [(place, 3, 7, place - 4) for place in (4, 5, 6)]
    labels = [[(1, 0, 2, 0), *(long if length > 7 else [])] for length in lengths]
    labels[2] = [(place, 0, 0, -1) for place, *_ in labels[2]]
    flat = [
        (row * columns + place, row * columns + left, row * columns + right, offset)
        for row, of in enumerate(labels)
        for place, left, right, offset in of
    ]
    names = ("label_index", "span_left", "span_right", "span_offset")
    tensors |= dict(zip(names, torch.tensor(flat).T, strict=True))
    tensors["label_ids"] = torch.randint(1, VOCABULARY, (len(flat),), generator=draw)
    same = tensors["label_index"][::3]  # some inputs are the original ids
    tensors["label_ids"][::3] = tensors["input_ids"].flatten()[same]
    tensors["sentence_label"] = torch.tensor([0, 1, -100, 1, 0, 1][:rows])
    tensors["label"] = torch.tensor([2, 1, -100, 0, 2, 1][:rows])
    tensors["target"] = torch.tensor([0.5, 4.0, float("nan"), 2.5, 1.0, 3.0][:rows])
    tensors["answer_start"] = torch.tensor([4, 0, -100, 1, 2, 3][:rows])
    tensors["answer_end"] = torch.tensor([6, 0, -100, 1, 5, 4][:rows])
    tensors["answer_places"] = torch.arange(columns) < tensors["lengths"][:, None]
    second = _rows(draw, rows, 7, torch.tensor([7, 3, 0, 5, 7, 4][:rows]), "")
    tensors |= {f"{name}_b": value for name, value in second.items()}
    tensors["row_weight"][-1] = 0
    return tensors


def choice_batch(seed=0):
    """Examples of one to four choices, each a row; the last example has weight 0, one has no label."""
    choices = torch.tensor([2, 3, 2, 4, 1, 3])
    tensors = batch_for("encoder", seed=seed, rows=15)
    kept = {name: tensors[name] for name in ("input_ids", "position_ids", "lengths")}
    label = torch.tensor([1, 0, -100, 2, 0, 2])
    return kept | {"choices": choices, "label": label, "row_weight": torch.tensor([1.0, 1, 1, 1, 1, 0])}


def rows_of(tensors, rows):
    """A slice of the rows of a batch, or of its examples, as a micro-batch of its own."""
    if "choices" in tensors:
        edges = [0, *tensors["choices"].cumsum(0).tolist()]
        texts = slice(edges[rows.start], edges[rows.stop])
        of_text = ("input_ids", "position_ids", "lengths")
        return {name: value[texts if name in of_text else rows] for name, value in tensors.items()}
    columns, first = tensors["input_ids"].shape[1], rows.start
    names = ("label_index", "label_ids", "label_weight", "sample_words", "span_left", "span_right", "span_offset")
    flat = [name for name in names if name in tensors]
    part = {name: value[rows] for name, value in tensors.items() if name not in flat}
    of = tensors["label_index"] // columns
    inside = (of >= rows.start) & (of < rows.stop)
    part |= {name: tensors[name][inside] for name in flat}
    shifted = {"label_index", "span_left", "span_right"} & part.keys()
    return part | {name: (part[name] - first * columns).clamp(min=0) for name in shifted}


def _rows(draw, rows, columns, lengths, prefix):
    places = torch.arange(columns).expand(rows, columns)
    ids = torch.randint(1, VOCABULARY, (rows, columns), generator=draw)
    return {
        f"{prefix}input_ids": ids.masked_fill(places >= lengths[:, None], 0),
        f"{prefix}position_ids": places.clone(),
        f"{prefix}lengths": lengths,
    }


def states(network, tensors):
    """The family's hidden states, without gradients."""
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


def drawn(module, seed=0):
    """The same part of a model with its initial weights, each drawn from the seed and its name in the part."""
    initialise(module, small_config("encoder"), seed)
    return module


def only(losses):
    """The one loss there is."""
    (loss,) = losses.values()
    return loss


def total(network, tensors):
    """The summed loss of a model with one head."""
    return only(network(tensors)).total


def weighted_batch():
    """Causal rows, masked rows with weight m / k and count m, a filler row, and a row without labels."""
    tensors = batch_for("encoder", lengths=[11, 11, 9, 8, 10, 11])
    places = [range(10), (1, 4), (0, 2, 5), (3,), (), (0, 7, 8, 9)]
    tensors["label_index"] = torch.tensor([row * 11 + place for row, of in enumerate(places) for place in of])
    tensors["label_ids"] = torch.arange(len(tensors["label_index"])) % VOCABULARY
    counts = torch.tensor([10, 10, 8, 8, 7, 10])
    weights = [10 / 10, 10 / 2, 8 / 3, 8 / 1, 0, 10 / 4]
    tensors["label_weight"] = torch.tensor([weight for weight, of in zip(weights, places, strict=True) for _ in of])
    attention, prefix = torch.tensor([1, 0, 0, 0, 1, 0]), torch.zeros(6, dtype=torch.int64)
    tensors |= {"label_count": counts, "attention": attention, "prefix_length": prefix}
    tensors["row_weight"][3] = 0
    return tensors
