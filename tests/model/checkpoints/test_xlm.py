import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints._conversion.test_export import checkpoint_of
from tests.model.checkpoints.published import difference, edit_config, rows, saved
from tests.model.small_models import VOCABULARY, built


def options(draw, found):
    switches = ("gelu_activation", "sinusoidal_embeddings", "use_lang_emb")
    return {key: draw.choice([True, False]) for key in switches} | {"n_langs": draw.choice([1, 5])}


@pytest.mark.parametrize("fixed", [True, False], ids=["sinusoids", "learned"])
def test_both_kinds_of_places_are_a_table(tmp_path, fixed):
    theirs = saved(tmp_path, "xlm", sinusoidal_embeddings=fixed)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


@pytest.mark.parametrize(("switches", "languages"), [((5, True), 5), ((5, False), 0), ((1, True), 0)])
def test_the_languages_that_have_embeddings(tmp_path, switches, languages):
    saved(tmp_path, "xlm", n_langs=switches[0], use_lang_emb=switches[1])
    assert read_checkpoint(tmp_path).config.languages == languages


def test_without_language_ids_no_embedding_is_added(tmp_path):
    theirs = saved(tmp_path, "xlm", n_langs=5, use_lang_emb=True)
    model = build_checkpoint(read_checkpoint(tmp_path))
    ours, their, valid = rows(theirs)
    del ours["languages"], their["langs"]
    with torch.no_grad():
        assert (model.logits(ours)["masked_lm"] - theirs(**their).logits)[valid].abs().max() < 1e-5


def test_no_token_sees_padding(tmp_path):
    """States at tokens are those of the class, which sets the states of padding to zero after every layer."""
    theirs = saved(tmp_path, "xlm", n_layers=3)
    ours, their, valid = rows(theirs)
    with torch.no_grad():
        states = theirs.transformer(**their).last_hidden_state
        hidden = build_checkpoint(read_checkpoint(tmp_path)).family(ours)
    assert not states[~valid].any()
    assert (hidden - states)[valid].abs().max() < 1e-5


def test_older_files_call_the_vocabulary_words(tmp_path):
    saved(tmp_path, "xlm")
    edit_config(tmp_path, vocab_size=None, n_words=VOCABULARY)
    assert read_checkpoint(tmp_path).vocab_size == VOCABULARY


@pytest.mark.parametrize("changes", [{"causal": True}, {"asm": True}, {"is_encoder": False}], ids="-".join)
def test_other_computations_are_refused(tmp_path, changes):
    saved(tmp_path, "xlm")
    edit_config(tmp_path, **changes)
    with pytest.raises(ConfigurationError, match=f"{next(iter(changes))}: expected"):
        read_checkpoint(tmp_path)


def test_a_model_of_ours_goes_out():
    """With a number where ours has none; a single language has no embedding there."""
    changes = {"eps": 1e-12, "type_vocab_size": 0, "ffn_dim": 96, "heads": {"masked_lm": {"transform": False}}}
    config = export_checkpoint(checkpoint_of(built("encoder", languages=4, **changes))).config
    assert (config["model_type"], config["n_langs"], config["embed_init_std"]) == ("xlm", 4, 0.02)
    with pytest.raises(ConfigurationError, match="languages: expected 0, got 1"):
        export_checkpoint(checkpoint_of(built("encoder", languages=1, **changes)), model_type="xlm")
