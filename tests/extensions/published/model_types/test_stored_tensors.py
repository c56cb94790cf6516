"""Tensors of published files that differ from those of a class that was just saved."""

import json
from dataclasses import replace

import pytest
import torch
import transformers

from clozeline.errors import WeightsError
from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.extensions.published.conversion.tables import ACTIVATIONS as NAMES
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.model.configuration.layer import ConnectorConfig
from clozeline.model.configuration.position import DisentangledConfig
from clozeline.model.layers.activation import ACTIVATIONS
from tests.extensions.published.conversion.test_export import checkpoint_of
from tests.extensions.published.peers import (
    VOCABULARY,
    apart,
    difference,
    edit_config,
    edit_tensors,
    export_to,
    in_and_out,
    loaded,
    peer,
    rows,
    saved,
    scores,
    stored,
)
from tests.model.small_models import built
from tests.refusals import refused

BOTH = ["pegasus", "marian"]
TABLES = [f"model.{stack}.embed_positions.weight" for stack in ("encoder", "decoder")]


def drawn(like, seed=8):
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed))


def test_every_name_of_an_activation_that_we_have_is_known():
    """Theirs with the values of one of ours, and no other."""
    from transformers.activations import ACT2FN  # slow to import

    draw = torch.linspace(-12, 12, 301)
    ours = {
        name: act(draw) for name, act in ACTIVATIONS.items() if name not in ("tanh", "identity")
    }
    found = {
        theirs: next(
            (
                name
                for name, values in ours.items()
                if (ACT2FN[theirs](draw) - values).abs().max() < 1e-6
            ),
            None,
        )
        for theirs in ACT2FN
        if "xielu" not in theirs  # it has parameters
    }

    assert {theirs: name for theirs, name in found.items() if name is not None} == NAMES


def test_segment_types_are_read(tmp_path):
    theirs = saved(tmp_path, "bert", type_vocab_size=2)
    ours, their, valid = rows(theirs)
    ours["type_ids"] = their["token_type_ids"] = their["input_ids"] % 2
    with torch.no_grad():
        found = build_checkpoint(read_checkpoint(tmp_path)).logits(ours)["masked_lm"]
        assert apart(found, theirs(**their).logits, valid) < 1e-5


@pytest.mark.parametrize("tied", [True, False])
def test_a_bias_of_the_scores_comes_in_and_goes_out(tmp_path, tied):
    """The class has it as a buffer, which is 0 unless somebody has set it, as the conversion of
    Marian does."""
    theirs = peer("bart")
    theirs.save_pretrained(tmp_path / "in")

    if not tied:  # a head of its own, on the same tables
        table = stored(tmp_path / "in")["model.shared.weight"]
        edit_tensors(tmp_path / "in", lambda tensors: tensors.update({"lm_head.weight": table + 1}))
        edit_config(tmp_path / "in", tie_word_embeddings=False)
        theirs.lm_head.weight = torch.nn.Parameter(table + 1)

    checkpoint = read_checkpoint(tmp_path / "in")

    assert checkpoint.config.heads["lm"].projection == "biased"
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5

    export = export_checkpoint(checkpoint)
    before = stored(tmp_path / "in")
    # without a tie the class reads the table of each stack
    tables = {f"model.{stack}.embed_tokens.weight" for stack in ("encoder", "decoder") if not tied}

    assert export.tensors.keys() == before.keys() | tables
    assert all(torch.equal(export.tensors[name], tensor) for name, tensor in before.items())

    again, report = loaded(export_to(tmp_path / "out", export), export.loader)

    assert report == {}
    assert difference(build_checkpoint(checkpoint), again) < 1e-5


def test_what_no_class_of_bart_computes_is_refused(tmp_path):
    saved(
        tmp_path / "tied", "bart", d_model=12, encoder_attention_heads=3, decoder_attention_heads=3
    )
    checkpoint = read_checkpoint(tmp_path / "tied")
    mapped = replace(checkpoint.config, connector=ConnectorConfig())

    with refused(r"differs: model.decoder_dim: expected 12, got 24; model.connector: "):
        export_checkpoint(replace(checkpoint, config=replace(mapped, decoder_dim=24)))

    with refused("no class for its encoder alone"):
        export_checkpoint(checkpoint, body_alone=True)
    edit_tensors(
        tmp_path / "tied",
        lambda tensors: {n: t for n, t in tensors.items() if n != "final_logits_bias"},
    )

    assert read_checkpoint(tmp_path / "tied").config.heads["lm"].projection == "linear"

    saved(tmp_path / "untied", "bart", tie_word_embeddings=False)

    with pytest.raises(
        WeightsError,
        match=r"differ; a model with a separate token table for each of them is not supported",
    ):
        read_checkpoint(tmp_path / "untied")


@pytest.mark.parametrize("model_type", BOTH)
@pytest.mark.parametrize("noise", [1e-7, 0.2])
def test_tables_that_are_no_waves_are_learned(tmp_path, model_type, noise):
    """The class reads the tables of a file, whatever they hold."""
    waves = saved(tmp_path / "in", model_type).model.encoder.embed_positions.weight.detach()
    edit_tensors(
        tmp_path / "in",
        lambda tensors: tensors | {name: waves + noise * drawn(waves) for name in TABLES},
    )
    theirs, _ = loaded(tmp_path / "in", "AutoModelForSeq2SeqLM")
    checkpoint = read_checkpoint(tmp_path / "in")

    assert checkpoint.config.position.kind == ("learned" if noise > 1e-6 else "sinusoidal")
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    # what goes out is what came in; Marian's tables of rounded waves are computed again
    export = export_checkpoint(checkpoint)
    before = stored(tmp_path / "in")
    dropped = set(TABLES) if model_type == "marian" and noise < 1e-6 else set()

    assert export.tensors.keys() == before.keys() - dropped
    assert all(torch.equal(tensor, before[name]) for name, tensor in export.tensors.items())

    again, report = loaded(export_to(tmp_path / "out", export), export.loader)

    assert report == {}
    assert difference(build_checkpoint(checkpoint), again) < 1e-5
    assert read_checkpoint(tmp_path / "out").config == checkpoint.config


@pytest.mark.parametrize("model_type", BOTH)
def test_without_tables_positions_are_computed(tmp_path, model_type):
    """1,024 positions, whose fp32 angles would be off by 6e-5."""
    theirs = saved(tmp_path, model_type, max_position_embeddings=1024)
    edit_tensors(tmp_path, lambda tensors: [tensors.pop(name, None) for name in TABLES] and None)
    model = build_checkpoint(read_checkpoint(tmp_path))

    assert difference(model, theirs) < 1e-5

    found = model.family.encoder.position.embed(torch.arange(1024))

    assert (found - theirs.model.encoder.embed_positions.weight).abs().max() < 2e-7

    edit_config(tmp_path, static_position_embeddings=False)

    with pytest.raises(
        WeightsError, match=r"2 tensors are missing: model\.decoder\.embed_positions\.weight"
    ):
        read_checkpoint(tmp_path)


# -- BART, Marian, PEGASUS
# ---------------------------------------------------------------------------------------------


# -- DeBERTa
# --------------------------------------------------------------------------------------------------

DEBERTAS = ["deberta", "deberta-v2"]


@pytest.mark.parametrize("case", DEBERTAS)
def test_the_head_of_published_files_goes_out_under_the_names_of_the_class(tmp_path, case):
    theirs = saved(tmp_path / "in", case, legacy=False)
    checkpoint = read_checkpoint(tmp_path / "in")

    assert (checkpoint.absent, checkpoint.notes) == ((), ())
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5

    model, report = loaded(
        export_to(tmp_path / "out", export_checkpoint(checkpoint)), "AutoModelForMaskedLM"
    )

    assert (model.config.legacy, report) == (True, {})
    assert difference(build_checkpoint(checkpoint), model) < 1e-5

    edit_config(tmp_path / "in", tie_word_embeddings=False)

    assert read_checkpoint(tmp_path / "in").config.tied, (
        "this head has no other projection than the table"
    )


def test_what_published_files_hold_besides_is_left_out_and_said(tmp_path):
    """Their config.json has no key `legacy`.

    The places are those of the mask decoder, which no class of theirs has.
    """
    theirs = saved(tmp_path, "deberta", legacy=False, position_biased_input=False)
    edit_config(tmp_path, legacy=None, tie_word_embeddings=None)
    more = ("deberta.embeddings.position_embeddings.weight", "mask_predictions.dense.weight")
    edit_tensors(tmp_path, lambda tensors: tensors | {name: torch.ones(2, 2) for name in more})
    checkpoint = read_checkpoint(tmp_path)

    assert checkpoint.notes == (f"skipped, not a part of the model: {', '.join(more)}",)
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


@pytest.mark.parametrize("case", DEBERTAS)
def test_a_model_with_a_mask_decoder_goes_out_without_it_and_without_its_head(tmp_path, case):
    """Its layers are those of the encoder: the last one, applied once to its own states, is the
    published body."""
    theirs = saved(tmp_path / "in", case, num_hidden_layers=2)
    plain = read_checkpoint(tmp_path / "in")
    relative = replace(plain.config.position.disentangled or DisentangledConfig(), mask_decoder=2)
    config = replace(plain.config, position=replace(plain.config.position, disentangled=relative))
    places = {"family.stack.layers.1.places.weight": torch.ones(20, config.dim)}
    decoded = replace(plain, config=config, tensors={**plain.tensors, **places})

    with refused(r"disentangled\.mask_decoder: expected null .*; export the body alone"):
        export_checkpoint(decoded)

    export = export_checkpoint(decoded, body_alone=True)
    model, report = loaded(export_to(tmp_path / "out", export), export.loader)

    assert (type(model), report) == (getattr(transformers, export.loader), {})

    _, their, valid = rows(theirs)
    with torch.no_grad():
        body = theirs.deberta(**their).last_hidden_state
        assert apart(model(**their).last_hidden_state, body, valid) < 1e-5


# -- GPT-2, GPT-NeoX
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["gpt2", "gpt_neox"])
def test_masks_and_former_names_of_old_decoders(tmp_path, case):
    """Buffers of attention, a body without its prefix, and Pythia's second name of the head."""
    theirs = saved(tmp_path, case, tie_word_embeddings=case == "gpt2")

    def age(tensors):
        if case == "gpt2":
            bare = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
            return bare | {
                "h.0.attn.bias": torch.ones(1, 1, 20, 20),
                "h.0.attn.masked_bias": torch.tensor(-1e4),
            }

        buffers = ("attention.bias", "attention.masked_bias", "attention.rotary_emb.inv_freq")
        more = {f"gpt_neox.layers.0.{name}": torch.ones(1) for name in buffers}
        return more | {"lm_head.weight": tensors.pop("embed_out.weight")} | tensors

    edit_tensors(tmp_path, age)

    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


# -- T5, UMT5
# --------------------------------------------------------------------------------------------------


def own_head(folder, case, **keys):
    """A head of its own; transformers ties it unless the tensors differ."""
    theirs = peer(case, **keys)
    theirs.lm_head.weight = torch.nn.Parameter(drawn(theirs.shared.weight))
    theirs.save_pretrained(folder)
    return theirs


@pytest.mark.parametrize("key", [True, False, None])
def test_a_head_of_its_own_is_seen_in_the_file(tmp_path, key):
    theirs = own_head(tmp_path, "t5", scale_decoder_outputs=False, feed_forward_proj="gated-gelu")
    edit_config(tmp_path, tie_word_embeddings=key)
    if key is False:  # as the published files say it
        edit_config(tmp_path, scale_decoder_outputs=None)
    checkpoint = read_checkpoint(tmp_path)

    assert (checkpoint.config.tied, checkpoint.config.out_scale) == (False, False)
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5

    exported = export_checkpoint(checkpoint)

    assert "lm_head.weight" in exported.tensors
    assert exported.config["scale_decoder_outputs"] is False


def test_an_old_file_with_equal_copies_is_tied_and_scaled(tmp_path):
    theirs = saved(tmp_path, "t5")
    copies = ("lm_head.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
    unread = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    edit_tensors(
        tmp_path,
        lambda tensors: (
            tensors
            | {name: tensors["shared.weight"].clone() for name in copies}
            | {unread: torch.ones(8, 3)}
        ),
    )

    edit_config(tmp_path, tie_word_embeddings=None, scale_decoder_outputs=None)

    for null in (False, True):  # no word about the tie
        path = tmp_path / "config.json"
        plain = json.loads(path.read_text()) | ({"tie_word_embeddings": None} if null else {})
        path.write_text(json.dumps(plain))
        checkpoint = read_checkpoint(tmp_path)

        assert (checkpoint.config.tied, checkpoint.config.out_scale) == (True, True)
        assert "EncDecAttention.relative_attention_bias" in checkpoint.notes[0]
        assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


def test_an_own_head_in_a_file_of_transformers_5_reads_scaled_states_and_a_published_one_states_as_they_are(
    tmp_path,
):
    """Published files say that nothing is tied.

    Transformers 5 scales all the same: the order of scores is ours.
    """
    theirs = own_head(tmp_path / "in", "umt5")
    checkpoint, _, again = in_and_out(tmp_path, theirs)

    assert (checkpoint.config.tied, checkpoint.config.out_scale) == (False, True)
    assert max(difference(build_checkpoint(checkpoint), one) for one in (theirs, again)) < 1e-5

    edit_config(tmp_path / "in", tie_word_embeddings=False)
    checkpoint = read_checkpoint(tmp_path / "in")

    assert (checkpoint.config.tied, checkpoint.config.out_scale) == (False, False)

    ours, _, valid = rows(theirs)
    with torch.no_grad():
        found = build_checkpoint(checkpoint).logits(ours)["lm"][valid]

    assert (found * theirs.config.d_model**-0.5 - scores(theirs, ["lm"])["lm"]).abs().max() < 1e-5
    assert export_checkpoint(checkpoint).config["tie_word_embeddings"] is False


# -- XLM
# --------------------------------------------------------------------------------------------------


def test_padding_and_absent_languages_of_xlm(tmp_path):
    """States at tokens are those of the class, which sets the states of padding to zero after every
    layer."""
    theirs = saved(tmp_path, "xlm", n_layers=3, n_langs=5, use_lang_emb=True)
    edit_config(tmp_path, vocab_size=None, n_words=VOCABULARY)  # as older files call it
    ours, their, valid = rows(theirs)
    del ours["languages"], their["langs"]
    with torch.no_grad():
        states = theirs.transformer(**their).last_hidden_state
        hidden = build_checkpoint(read_checkpoint(tmp_path)).family(ours)

    assert not states[~valid].any()
    assert (hidden - states)[valid].abs().max() < 1e-5


def test_a_model_of_ours_with_languages_is_an_xlm():
    """With a number where ours has none; a single language has no embedding there."""
    changes = {
        "eps": 1e-12,
        "type_vocab_size": 0,
        "ffn_dim": 96,
        "heads": {"masked_lm": {"transform": False}},
    }

    config = export_checkpoint(checkpoint_of(built("encoder", languages=4, **changes))).config

    assert (config["model_type"], config["n_langs"], config["embed_init_std"]) == ("xlm", 4, 0.02)

    with refused("languages: expected 0, got 1"):
        export_checkpoint(checkpoint_of(built("encoder", languages=1, **changes)), model_type="xlm")
