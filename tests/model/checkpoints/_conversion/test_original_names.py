"""Files of the programs that models were published with, beside a config.json of transformers."""

import doctest
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeline.errors import WeightsError
from clozeline.model.checkpoints import build_checkpoint, read_checkpoint
from clozeline.model.checkpoints._conversion import original_names
from clozeline.model.checkpoints._conversion.original_names import Origin, from_origin
from tests.model.checkpoints.published import VOCABULARY, difference, saved

DIM, HEADS, SHARED, WIDTH, LAYERS, FFN, THETA = 12, 4, 2, 6, 2, 20, 50.0


def rewrite(folder, change):
    path = folder / "model.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in change(load_file(path)).items()}, path)


def test_parts_names_and_collisions():
    origins = (Origin(r"a\.(\d+)\.fused", ("b.{0}.x", "b.{0}.y")), Origin("old", ("b.0.x",)))
    tensors = {"a.0.fused": torch.arange(4), "else": torch.ones(1)}
    found = from_origin(tensors, origins, 2, "here")
    assert {name: value.tolist() for name, value in found.items()} == {"b.0.x": [0, 1], "b.0.y": [2, 3], "else": [1.0]}
    with pytest.raises(WeightsError, match=r"here: old and another tensor are both b\.0\.x"):
        from_origin(tensors | {"old": torch.ones(1)}, origins, 2, "here")


def test_parts_of_each_head_in_turn():
    """Two heads of width 2: rows q0 q0 k0 k0 q1 q1 k1 k1; neighbors in the first name only."""
    origin = Origin("fused", ("q", "k"), interleaved=1, by_head=True)
    found = from_origin({"fused": torch.arange(16)[:, None]}, (origin,), 4, "here")
    assert found["q"].flatten().tolist() == [0, 2, 1, 3, 8, 10, 9, 11]
    assert found["k"].flatten().tolist() == [4, 5, 6, 7, 12, 13, 14, 15]


def test_examples_in_docstrings():
    assert doctest.testmod(original_names).failed == 0


def of_meta():
    """Random tensors of a Llama as Meta's program names them."""
    draw = torch.Generator().manual_seed(2)

    def matrix(rows, columns):
        return torch.randn(rows, columns, generator=draw) * columns**-0.5

    found = {"tok_embeddings.weight": matrix(VOCABULARY, DIM), "output.weight": matrix(VOCABULARY, DIM)}
    found["rope.freqs"] = torch.ones(WIDTH // 2)
    for name in ("norm", *(f"layers.{i}.{kind}_norm" for i in range(LAYERS) for kind in ("attention", "ffn"))):
        found[f"{name}.weight"] = 1 + 0.2 * torch.randn(DIM, generator=draw)
    for i in range(LAYERS):
        for name, heads in (("wq", HEADS), ("wk", SHARED), ("wv", SHARED)):
            found[f"layers.{i}.attention.{name}.weight"] = matrix(heads * WIDTH, DIM)
        found[f"layers.{i}.attention.wo.weight"] = matrix(DIM, HEADS * WIDTH)
        for name, shape in (("w1", (FFN, DIM)), ("w2", (DIM, FFN)), ("w3", (FFN, DIM))):
            found[f"layers.{i}.feed_forward.{name}.weight"] = matrix(*shape)
    return found


def read_by_meta(tensors, ids):
    """Logits [T, V] of the published computation: the rotation multiplies neighbors as complex numbers."""

    def norm(x, name):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * tensors[f"{name}.weight"]

    def turned(x):
        pairs = torch.view_as_complex(x.reshape(len(ids), -1, WIDTH // 2, 2))
        angles = torch.arange(len(ids))[:, None] * THETA ** (-torch.arange(0, WIDTH, 2) / WIDTH)
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)[:, None]).flatten(2)

    x = tensors["tok_embeddings.weight"][ids]
    for i in range(LAYERS):
        at, inner = f"layers.{i}.attention", f"layers.{i}.feed_forward"
        y = norm(x, f"layers.{i}.attention_norm")
        query, key = (turned(y @ tensors[f"{at}.{name}.weight"].T) for name in ("wq", "wk"))
        value = (y @ tensors[f"{at}.wv.weight"].T).view(len(ids), SHARED, WIDTH)
        mixed = []
        for head in range(HEADS):
            scores = query[:, head] @ key[:, head // (HEADS // SHARED)].T / WIDTH**0.5
            later = torch.ones_like(scores, dtype=torch.bool).triu(1)
            mixed.append(scores.masked_fill(later, -torch.inf).softmax(-1) @ value[:, head // (HEADS // SHARED)])
        x = x + torch.cat(mixed, dim=-1) @ tensors[f"{at}.wo.weight"].T
        y = norm(x, f"layers.{i}.ffn_norm")
        gate = torch.nn.functional.silu(y @ tensors[f"{inner}.w1.weight"].T)
        x = x + (gate * (y @ tensors[f"{inner}.w3.weight"].T)) @ tensors[f"{inner}.w2.weight"].T
    return norm(x, "norm") @ tensors["output.weight"].T


def test_llama_as_meta_published_it(tmp_path):
    config = {"model_type": "llama", "vocab_size": VOCABULARY, "hidden_size": DIM, "num_hidden_layers": LAYERS,
              "num_attention_heads": HEADS, "num_key_value_heads": SHARED, "head_dim": WIDTH, "rms_norm_eps": 1e-5,
              "intermediate_size": FFN, "rope_theta": THETA, "tie_word_embeddings": False}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = of_meta()
    save_file(tensors, tmp_path / "model.safetensors")
    ids = torch.tensor([4, 9, 11, 30, 5, 9, 2])
    model = build_checkpoint(read_checkpoint(tmp_path))
    with torch.no_grad():
        logits = model.logits({"input_ids": ids[None], "position_ids": torch.arange(7)[None]})["lm"][0]
    assert (logits - read_by_meta(tensors, ids)).abs().max() < 1e-5


def fused(tensors, at, parts, into):
    """Join queries, keys and values, weights and biases, as fairseq's attention once kept them."""
    for kind in ("weight", "bias"):
        tensors[f"{into}_{kind}"] = torch.cat([tensors.pop(f"{at}.{part}.{kind}") for part in parts])


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
@pytest.mark.parametrize("joined", [True, False], ids=["fused", "apart"])
def test_roberta_as_fairseq_published_it(tmp_path, stack, joined):
    theirs = saved(tmp_path, "roberta")
    theirs.roberta.embeddings.token_type_embeddings.weight.data.zero_()
    names = {
        "embeddings.word_embeddings": "embed_tokens", "embeddings.position_embeddings": "embed_positions",
        "embeddings.LayerNorm": "emb_layer_norm", "encoder.layer": "layers", "attention.self.query": "self_attn.q_proj",
        "attention.self.key": "self_attn.k_proj", "attention.self.value": "self_attn.v_proj",
        "attention.output.dense": "self_attn.out_proj", "attention.output.LayerNorm": "self_attn_layer_norm",
        "intermediate.dense": "fc1", "output.dense": "fc2", "output.LayerNorm": "final_layer_norm",
    }  # fmt: skip

    def change(tensors):
        tensors.pop("roberta.embeddings.token_type_embeddings.weight")
        found = {}
        for name, tensor in tensors.items():
            for new, old in names.items():
                name = name.replace(new, old)
            name = name.replace("roberta.", f"{stack}.sentence_encoder.").replace("lm_head.", f"{stack}.lm_head.")
            found[name] = tensor
        if joined:
            for layer in range(theirs.config.num_hidden_layers):
                at = f"{stack}.sentence_encoder.layers.{layer}.self_attn"
                fused(found, at, ("q_proj", "k_proj", "v_proj"), f"{at}.in_proj")
        return found | {f"{stack}.lm_head.weight": found[f"{stack}.sentence_encoder.embed_tokens.weight"].clone()}

    rewrite(tmp_path, change)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


@pytest.mark.parametrize("model_type", ["bart", "mbart"])
def test_bart_with_fused_projections(tmp_path, model_type):
    theirs = saved(tmp_path, model_type)

    def change(tensors):
        found = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
        found["decoder.embed_tokens.weight"] = found.pop("shared.weight")
        found["decoder.output_projection.weight"] = found["decoder.embed_tokens.weight"].clone()
        found["encoder.version"] = torch.ones(1)
        parts = ("q_proj", "k_proj", "v_proj")
        for stack, kinds in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
            for layer in range(getattr(theirs.config, f"{stack}_layers")):
                for kind in kinds:
                    fused(found, f"{stack}.layers.{layer}.{kind}", parts, f"{stack}.layers.{layer}.{kind}.in_proj")
        return found

    rewrite(tmp_path, change)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


def test_segment_types_are_zero_only_in_files_of_fairseq(tmp_path):
    saved(tmp_path, "roberta")
    name = "roberta.embeddings.token_type_embeddings.weight"
    rewrite(tmp_path, lambda tensors: {key: value for key, value in tensors.items() if key != name})
    with pytest.raises(WeightsError, match=f"1 tensors are missing: {name}"):
        read_checkpoint(tmp_path)
