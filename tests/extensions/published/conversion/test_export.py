from dataclasses import replace

import pytest
import torch
import transformers

from clozeline.errors import WeightsError
from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.model.checkpoints.checkpoint import Checkpoint, parameter_shapes
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.extensions.published.peers import edit_config, saved
from tests.model.small_models import VOCABULARY, built
from tests.refusals import refused


def checkpoint_of(model, **changes):
    """Return the parameters of a training run: parameters with rows that pad the vocabulary."""
    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    return replace(
        Checkpoint(model.config, VOCABULARY, tensors, {"pad_token_id": 0}, None, ()), **changes
    )


def test_rows_that_pad_the_vocabulary_are_cut_off():
    model = built("encoder", vocab_multiple=64, eps=1e-12)
    export = export_checkpoint(checkpoint_of(model))

    assert export.config["model_type"] == "bert"
    assert export.config["vocab_size"] == VOCABULARY

    table, bias = (
        export.tensors[name]
        for name in ("bert.embeddings.word_embeddings.weight", "cls.predictions.bias")
    )

    assert torch.equal(table, model.family.tokens.weight[:VOCABULARY])
    assert bias.shape == (VOCABULARY,)


@pytest.mark.parametrize(
    ("model_type", "keys"),
    [
        ("bert", {}),
        ("electra", {"emb_dim": 8}),
        (
            "megatron-bert",
            {"norm_place": "pre", "final_norm": True, "emb_norm": False, "eps": 1e-12},
        ),
        ("roberta", {"position": {"kind": "learned", "maximum": 30, "offset": 2}}),
    ],
)
def test_a_model_without_segment_types_gets_a_row_of_zeros(tmp_path, model_type, keys):
    model = built("encoder", **{"type_vocab_size": 0, "eps": 1e-12, **keys}).double()
    ids = torch.randint(3, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(0))
    export = export_checkpoint(
        checkpoint_of(model, token_ids={"pad_token_id": 1}), model_type=model_type
    )
    kind = getattr(transformers, export.config["architectures"][0])
    theirs = kind(transformers.AutoConfig.for_model(**export.config)).double().eval()

    assert theirs.load_state_dict(export.tensors, strict=False).unexpected_keys == []

    row = export.tensors[next(name for name in export.tensors if "token_type_embeddings" in name)]

    assert row.shape[0] == 1
    assert not row.any()

    with torch.no_grad():
        expected = theirs(input_ids=ids).logits
        batch = {
            "input_ids": ids,
            "position_ids": torch.arange(9).expand(2, 9),
            "lengths": torch.tensor([9, 9]),
        }

        [found] = model.logits(batch).values()

    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_a_head_of_another_type_is_refused():
    model = built("encoder", heads={"lm": 1.0})
    known = (
        "has the heads masked_lm or masked_lm and sentence or sentence, but this one has lm: "
        "export some of them, or the body"
    )
    with refused(known):
        export_checkpoint(checkpoint_of(model))

    assert export_checkpoint(checkpoint_of(model), body_alone=True).config["architectures"] == [
        "BertModel"
    ]


@pytest.mark.parametrize(
    ("case", "head", "words"),
    [
        (
            "bert",
            {"transform": False},
            "transform: expected true in a model of type bert, got false",
        ),
        ("eurobert", {"transform": True}, "transform: expected false in a model of type eurobert"),
        ("eurobert", {"bias": False}, "bias: expected true in a model of type eurobert"),
        (
            "phi",
            {"projection": "linear"},
            "projection: expected biased in a model of type phi, got linear",
        ),
    ],
)
def test_a_head_that_the_type_does_not_have_is_refused(tmp_path, case, head, words):
    saved(tmp_path, case, **({"mlp_bias": True} if case == "eurobert" else {}))
    whole = read_checkpoint(tmp_path)
    ((name, own),) = whole.config.heads.items()
    config = replace(whole.config, heads={name: replace(own, **head)})
    known = parameter_shapes(config, VOCABULARY)

    with refused(words):
        export_checkpoint(
            replace(
                whole, config=config, tensors={n: t for n, t in whole.tensors.items() if n in known}
            )
        )


def test_a_factor_that_is_no_root_of_a_whole_number_has_no_type(tmp_path):
    saved(tmp_path, "gemma2")
    checkpoint = read_checkpoint(tmp_path)

    assert export_checkpoint(checkpoint).config["query_pre_attn_scalar"] == 7

    with refused(r"the nearest, gemma2, differs: model\.qk_scale: expected"):
        export_checkpoint(
            replace(checkpoint, config=replace(checkpoint.config, qk_scale=0.3)),
            model_type="gemma2",
        )


def test_a_body_cannot_be_exported_with_a_head(tmp_path):
    saved(tmp_path, "bert")
    whole = read_checkpoint(tmp_path)
    with pytest.raises(WeightsError, match="export the body alone"):
        export_checkpoint(replace(whole, absent=("heads.masked_lm.norm.weight",)))


def test_the_class_follows_from_the_heads_in_any_order():
    weights = {"sentence": 0.5, "masked_lm": 1.0}
    export = export_checkpoint(checkpoint_of(built("encoder", heads=weights)))

    assert (export.config["architectures"], export.loader) == (
        ["BertForPreTraining"],
        "AutoModelForPreTraining",
    )

    body = export_checkpoint(checkpoint_of(built("encoder", heads=weights)), body_alone=True)

    assert body.tensors.keys() >= {"pooler.dense.weight", "embeddings.LayerNorm.bias"}
    assert not any("predictions" in name or "relationship" in name for name in body.tensors)


def test_ids_are_written_even_where_there_are_none(tmp_path):
    """A class has defaults of its own, such as 50256, that lie outside a small vocabulary."""
    config = export_checkpoint(
        checkpoint_of(built("decoder"), token_ids={"eos_token_id": 3}), model_type="llama"
    )

    assert config.config["bos_token_id"] is None
    assert config.config["eos_token_id"] == 3
    assert config.generation == {"eos_token_id": 3}

    saved(tmp_path, "mbart")
    edit_config(tmp_path, forced_bos_token_id=9)
    export = export_checkpoint(read_checkpoint(tmp_path))

    assert export.generation["forced_bos_token_id"] == export.config["forced_bos_token_id"] == 9


@pytest.mark.parametrize(
    ("model_type", "changes", "expected"),
    [
        ("gpt2", {"n_positions": 48}, {"n_ctx": 48}),
        ("modernbert", {"norm_eps": 1e-4}, {"layer_norm_eps": 1e-4}),
    ],
)
def test_keys_that_llama_cpp_reads_are_written(tmp_path, model_type, changes, expected):
    """The converter knows the length and the epsilon by these names alone."""
    saved(tmp_path, model_type, **changes)
    config = export_checkpoint(read_checkpoint(tmp_path)).config
    assert {key: config.get(key) for key in expected} == expected
