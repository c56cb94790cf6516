"""Prompts, framed as rows of training are."""

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.runs.inference.generation import blank_after, find_language_token, prompt_ids
from tests.pipeline.tokenize.tokenizers.word_marks import KINDS, ROLES
from tests.tools.small_run import example_sets


def test_a_prompt_is_framed_like_the_rows_of_training(shard_sets):
    tokenizer = load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer")
    specials, sentinels = tokenizer.vocabulary.specials, tokenizer.vocabulary.sentinels
    ids = tokenizer.encode(["the page", " of", ""])
    objectives = {
        label: open_shards(example_sets(shard_sets)[label][0]).manifest.objective
        for label in ("causal_lm", "span_corruption", "bart")
    }
    framed = {
        label: prompt_ids(tokenizer, objective, "the page <mask> of<extra_0>")
        for label, objective in objectives.items()
        if objective is not None
    }
    plain = [*ids[0].ids, specials["mask"], *ids[1].ids, sentinels[0]]
    assert framed["causal_lm"] == plain
    assert framed["span_corruption"] == [*plain, specials["eos"]]
    assert framed["bart"] == [specials["bos"], *plain, specials["eos"]]
    assert objectives["causal_lm"] is not None
    with pytest.raises(ConfigurationError, match="at least one token"):
        prompt_ids(tokenizer, objectives["causal_lm"], "")


@pytest.mark.parametrize("name", KINDS)
def test_a_prompt_and_its_continuation_spell_the_text(name, tmp_path):
    """Cut after each word, where a model that has learned the text continues it."""
    tokenizer = import_tokenizer(KINDS[name][0](tmp_path / "in"), tmp_path / "out", **ROLES)
    words = ["The", "quick", "brown", "fox", "watches", "the", "garden"]
    ids = tokenizer.encode([" ".join(words)])[0].ids.tolist()
    for number in range(1, len(words)):
        prompt = " ".join(words[:number])
        first = len(tokenizer.encode([prompt])[0].ids)
        shown = prompt + blank_after(tokenizer, prompt) + tokenizer.decode_part(ids[first:])
        assert shown.rstrip() == " ".join(words)
        assert blank_after(tokenizer, f"{prompt} ") == ""


def test_a_language_ends_the_prompt_and_starts_the_decoder(shard_sets):
    tokenizer = load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer")
    bart = open_shards(example_sets(shard_sets)["bart"][0]).manifest.objective
    assert bart is not None
    mbart = bart.model_copy(update={"options": {**bart.options, "language_tokens": {"de": "<reserved_1>"}}})
    token = find_language_token(tokenizer, mbart, "de")
    assert token is not None
    assert tokenizer.piece(token) == "<reserved_1>"
    assert find_language_token(tokenizer, bart, None) is None
    with pytest.raises(ConfigurationError, match="one of de, got none"):
        find_language_token(tokenizer, mbart, None)
    with pytest.raises(ConfigurationError, match="one of de, got en"):
        find_language_token(tokenizer, mbart, "en")
    with pytest.raises(ConfigurationError, match="bart have no language tokens"):
        find_language_token(tokenizer, bart, "de")
