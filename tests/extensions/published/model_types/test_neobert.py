"""NeoBERT against a forward pass written from its rules: transformers has no class for it."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.extensions.published.conversion.type_selection import load_map
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.contracts import contract
from tests.extensions.published.peers import MODEL_TYPES, VOCABULARY, export_to, loaded
from tests.refusals import refused

DIM = 30
HEADS = 3
LAYERS = 3
INNER = 48
EPS = 3e-4
LENGTHS = (11, 1, 23)


def noise(*shape, draw):
    return torch.randn(*shape, generator=draw)


@pytest.fixture
def folder(tmp_path):
    """A folder as the publisher's code writes it: gains are no ones, the bias of the head is no
    zero."""
    draw = torch.Generator().manual_seed(4)
    gain = lambda: 1 + 0.3 * noise(DIM, draw=draw)  # noqa: E731
    tensors = {
        "model.encoder.weight": noise(VOCABULARY, DIM, draw=draw),
        "model.layer_norm.weight": gain(),
    }

    for layer in range(LAYERS):
        at = f"model.transformer_encoder.{layer}"
        shapes = {
            "qkv": (3 * DIM, DIM),
            "wo": (DIM, DIM),
            "ffn.w12": (2 * INNER, DIM),
            "ffn.w3": (DIM, INNER),
        }
        for name, shape in shapes.items():
            tensors[f"{at}.{name}.weight"] = noise(*shape, draw=draw) * shape[1] ** -0.5
        tensors |= {f"{at}.{name}_norm.weight": gain() for name in ("attention", "ffn")}

    tensors |= {"decoder.weight": noise(VOCABULARY, DIM, draw=draw) * DIM**-0.5}
    tensors |= {"decoder.bias": noise(VOCABULARY, draw=draw)}
    save_file(tensors, tmp_path / "model.safetensors")
    keys = {
        "model_type": "neobert",
        "architectures": ["NeoBERTLMHead"],
        "hidden_size": DIM,
        "norm_eps": EPS,
    }

    keys |= {
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "intermediate_size": 70,
        "pad_token_id": 0,
    }

    keys |= {"vocab_size": VOCABULARY, "dim_head": DIM // HEADS, "auto_map": {}, "max_length": 64}
    (tmp_path / "config.json").write_text(json.dumps(keys))
    return tmp_path


def normed(x, gain):
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt() * gain


def rotated(x):
    """Pairs of neighbors [T, width] as complex numbers, turned by position / 10000^(2i / width)."""
    width = x.shape[-1]
    rates = 10000.0 ** -(torch.arange(0, width, 2).double() / width)
    turns = torch.polar(
        torch.ones(len(x), width // 2).double(), torch.arange(len(x)).double()[:, None] * rates
    )
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turns).flatten(-2).float()


def slow_forward(tensors, ids):
    """Logits [T, V] of one row, head by head.

    Every head's outputs of qkv are its query, key and value in turn.
    """
    x = tensors["model.encoder.weight"][ids]
    width = DIM // HEADS

    for layer in range(LAYERS):
        own = {
            name.removeprefix(f"model.transformer_encoder.{layer}.").removesuffix(".weight"): tensor
            for name, tensor in tensors.items()
        }
        states = normed(x, own["attention_norm"])
        mixed = []

        for head in range(HEADS):
            block = own["qkv"][3 * width * head : 3 * width * (head + 1)] @ states.T
            query = rotated(block[:width].T)
            key = rotated(block[width : 2 * width].T)
            value = block[2 * width :].T
            mixed.append((query @ key.T / width**0.5).softmax(-1) @ value)

        x = x + torch.cat(mixed, dim=-1) @ own["wo"].T
        gate, up = (normed(x, own["ffn_norm"]) @ own["ffn.w12"].T).chunk(2, dim=-1)
        x = x + (gate * gate.sigmoid() * up) @ own["ffn.w3"].T

    return (
        normed(x, tensors["model.layer_norm.weight"]) @ tensors["decoder.weight"].T
        + tensors["decoder.bias"]
    )


def largest_difference(folder, tensors):
    """Of the logits of padded rows, each compared with the row alone."""
    columns = max(LENGTHS)
    ids = torch.randint(
        1, VOCABULARY, (len(LENGTHS), columns), generator=torch.Generator().manual_seed(1)
    )
    rows = {
        "input_ids": ids,
        "position_ids": torch.arange(columns)[None],
        "lengths": torch.tensor(LENGTHS),
    }
    with torch.no_grad():
        found = build_checkpoint(read_checkpoint(folder)).logits(rows)["masked_lm"]
    pairs = [(found[row, :n], slow_forward(tensors, ids[row, :n])) for row, n in enumerate(LENGTHS)]

    assert all(bool(one.isfinite().all()) for one, _ in pairs)

    return max((one - other).abs().max().item() for one, other in pairs)


@contract(MODEL_TYPES, "model_type", only=["neobert"])
def test_logits_equal_those_of_a_slow_forward(folder, model_type):
    assert read_checkpoint(folder).model_type == model_type
    assert largest_difference(folder, load_file(folder / "model.safetensors")) < 1e-5


def test_it_is_read_only_but_its_body_is_a_eurobert(folder, tmp_path):
    checkpoint = read_checkpoint(folder)

    assert (checkpoint.config.ffn_dim, checkpoint.notes) == (INNER, ())

    with refused("type neobert cannot be exported: transformers has no class for it"):
        export_checkpoint(checkpoint)

    export = export_checkpoint(checkpoint, model_type="eurobert", body_alone=True)
    body, report = loaded(export_to(tmp_path / "out", export), export.loader)

    assert (type(body).__name__, report) == ("EuroBertModel", {})

    ids = torch.arange(4, 21)[None]

    with torch.no_grad():
        states = body(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
        ours = build_checkpoint(checkpoint).family(
            {
                "input_ids": ids,
                "position_ids": torch.arange(17)[None],
                "lengths": torch.tensor([17]),
            }
        )

    assert (states - ours).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("size", "inner"), [(None, 2048), (3072, 2048), (70, 48), (72, 48), (84, 56), (87, 64)]
)
def test_the_inner_width_of_a_configuration_alone_is_two_thirds_in_eights(size, inner):
    plain = {} if size is None else {"intermediate_size": size}
    assert load_map("neobert").configuration.read_extra(plain, {}) == {"ffn_dim": inner}
