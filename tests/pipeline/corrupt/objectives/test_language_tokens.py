"""mBART's rows (arXiv 2001.08210 §2.2): input and target end with the end token and the token of their language."""

from dataclasses import replace

import numpy as np
import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.objectives import Skip
from clozeline.pipeline.rows import Row, Rows
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, save_tokenizer
from clozeline.pipeline.tokenize.tokenizers.word import Word
from tests.pipeline.corrupt.objectives.runner import wide
from tests.pipeline.corruption_cases import FIRST_CONTENT, WORDS, one_sample, samples

TEXT = "Hard work leads to success. Success brings happiness."
TOKENS = {"en": "<en>", "de": "<de>"}
DE, EN = FIRST_CONTENT, FIRST_CONTENT + 1


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    options = Word.Options(size=170, min_frequency=1, reserved=["<de>", "<en>"])
    save_tokenizer(Word.train([TEXT, " Success"], options, folder), "word", folder)
    return load_tokenizer(folder), folder


@pytest.fixture(scope="module")
def words(tokenizer):
    """The vocabulary of that tokenizer, for a corpus whose rows have the codes 0, 1, 2 for de, en, fr."""
    return replace(tokenizer[0].vocabulary, folder=tokenizer[1], languages=("de", "en", "fr"))


def mbart(words, **options):
    return wide("composition", words, **{"source_head": "none", "language_tokens": TOKENS, **options})


def in_languages(rows, codes):
    return Rows({**rows.fixed, "language": np.array(codes, np.uint8)}, rows.columns)


def content(lengths, codes, words):
    """Rows of ids that are not special."""
    rows = in_languages(samples(lengths, words, sentences=3), codes)
    rows.columns["ids"].values[:] = EN + 1 + rows.columns["ids"].values % (words.size - EN - 1)
    return rows


def test_rows_by_hand(tokenizer, words):
    """Two sentences change places; a row of a language without a token is skipped with a reason."""
    tokenizer, _ = tokenizer
    ids = tokenizer.encode([TEXT])[0].ids
    objective = mbart(words, steps=["sentence_reordering"])
    rows = in_languages(one_sample(ids, [0, 6], words, 3), [1, 0, 2])
    examples, skips = objective.corrupt(rows, np.zeros(3, np.uint16), 1)
    shown = {
        name: ["".join(tokenizer.piece(int(token)) for token in examples.columns[name][row]) for row in range(2)]
        for name in ("input_ids", "target_ids")
    }
    swapped = " Success brings happiness.Hard work leads to success."
    assert shown["input_ids"] == [f"{swapped}</s><en>", f"{swapped}</s><de>"]
    assert shown["target_ids"] == [f"{TEXT}</s><en>", f"{TEXT}</s><de>"]
    assert [Skip(code) for code in skips] == [Skip.NONE, Skip.NONE, Skip.NO_LANGUAGE_TOKEN]
    assert Skip.NO_LANGUAGE_TOKEN.reason == "no_language_token"
    assert objective.frame.decoder_start == "target_end"


def test_the_noise_is_that_of_rows_without_language_tokens(words):
    """A row of `max_length` tokens has room for one content token less; all others are BART's, and can be undone."""
    rows = content([1, 5, 40, 300], [0, 1, 1, 0], words)
    objective, bart = mbart(words), mbart(words, language_tokens={})
    examples, skips = objective.corrupt(rows, np.zeros(4, np.uint16), 1)
    plain, _ = bart.corrupt(rows, np.zeros(4, np.uint16), 1)
    assert not skips.any()
    assert objective.content_length == bart.content_length - 1 == 700 - 2
    for example, without, language in zip(examples, plain, [DE, EN, EN, DE], strict=True):
        for name in ("input_ids", "target_ids"):
            assert example[name].tolist() == [*without[name].tolist(), language]
        assert np.array_equal(objective.uncorrupt(example), bart.uncorrupt(without))


def test_two_languages_in_one_example_are_damage(words):
    rows = content([40], [1], words)
    objective = mbart(words)
    example = next(iter(objective.corrupt(rows, np.zeros(1, np.uint16), 1)[0]))
    target = example["target_ids"].copy()
    target[-1] -= 1
    with pytest.raises(ValueError, match="different language tokens"):
        objective.uncorrupt(Row(example.fixed, {**example.columns, "target_ids": target}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grouping": "packed"}, "language_tokens needs grouping: document"),
        ({"language_tokens": {"en": "<e>", "xx": "<xx>"}}, r"no special piece <e>; train it with .*\[<e>, \.\.\.\]"),
        ({"language_tokens": {"en": "<en>", "de": "<en>"}}, "two languages have the same token"),
        ({"steps": [{"name": "text_infilling", "language_tokens": TOKENS}]}, "language_tokens"),
    ],
)
def test_refusals(words, options, message):
    with pytest.raises(ConfigurationError, match=message):
        mbart(words, **options)


def test_rows_whose_languages_have_no_names_are_refused():
    with pytest.raises(ConfigurationError, match="only the sets of a recipe name the languages"):
        mbart(WORDS).corrupt(samples([40]), np.zeros(1, np.uint16), 1)
