"""Composition: steps draw as they would alone, and are undone backwards.

MBART's rows end with a language token.
"""

from dataclasses import replace

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import RandomKeys, Skip
from clozeline.pipeline.corrupt.objectives._denoising import TokenRows
from clozeline.pipeline.rows import Ragged, RowBatch, ShardRow
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, save_tokenizer
from clozeline.pipeline.tokenize.tokenizers.word import Word
from tests.pipeline.corrupt.objectives.runner import corrupt, wide
from tests.pipeline.corruption_cases import FIRST_CONTENT, MASK, WORDS, one_sample, samples
from tests.refusals import refused

STEPS = [
    "sentence_reordering",
    "document_rotation",
    "token_deletion",
    "denoising_autoencoding",
    "text_infilling",
]
THREE = [{"name": "sentence_reordering"}, {"name": "document_rotation"}, {"name": "text_infilling"}]


@pytest.mark.parametrize(
    "steps",
    [
        [THREE[1], THREE[0], THREE[2]],
        [{"name": name} for name in STEPS],
    ],
)
def test_equals_its_steps_one_by_one(steps):
    objective = wide("composition", steps=steps)
    rows = samples([1, 2, 5, 17, 64, 300, 568] * 10)
    examples = corrupt(objective, rows)
    random_keys = RandomKeys(1, rows.fixed["uid"], np.zeros(len(rows), np.uint16))
    text = TokenRows(rows.columns["ids"], rows.columns["sentence_starts"])

    for step in objective.steps:
        ids, noise = wide(step.name).add_noise(text, random_keys)
        for name, column in noise.items():
            assert (column.values == examples.columns[f"{step.name}_{name}"].values).all()
        text = TokenRows(ids, step.sentence_starts_after(text, noise))

    for row, example in enumerate(examples):
        assert example["input_ids"].tolist() == [4, *text.ids[row].tolist(), 5]
        assert np.array_equal(
            objective.restore(example), objective.add_special_tokens(rows.row(row)["ids"])
        )


@pytest.mark.parametrize("first", ["sentence_reordering", "document_rotation", "token_deletion"])
def test_words_that_segmenters_found_move_with_their_tokens(first):
    """Spans of the last step start and end at words.

    Each token is unlike all others, and so tells its place.
    """
    random = np.random.RandomState(5)
    lengths = [100 + row for row in range(150)]
    ids = [
        FIRST_CONTENT + random.permutation(WORDS.size - FIRST_CONTENT)[:length]
        for length in lengths
    ]
    # words of one and two tokens
    starts = [np.flatnonzero(np.arange(length) % 3 != 1) for length in lengths]
    plain = samples(lengths, sentences=6)
    columns = {
        "ids": Ragged.from_lists(ids, WORDS.id_dtype),
        "word_starts": Ragged.from_lists(starts, np.uint16),
    }
    rows = RowBatch(plain.fixed, {**plain.columns, **columns})
    steps = [{"name": first}, {"name": "text_infilling", "unit": "word", "noise_density": 0.3}]
    objective = wide("composition", steps=steps)
    before = wide("composition", steps=steps[:1])
    cut = 0

    for sample, example, moved in zip(
        rows, corrupt(objective, rows), corrupt(before, rows), strict=True
    ):
        assert np.array_equal(
            objective.restore(example), objective.add_special_tokens(sample["ids"])
        )

        opening = set(sample["ids"][sample["word_starts"]].tolist())
        content = moved["input_ids"][1:-1].tolist()
        spans = zip(
            example["text_infilling_span_starts"],
            example["text_infilling_span_lengths"],
            strict=True,
        )
        for start, length in spans:
            ends = {int(start), int(start + length)} - {0, len(content)}
            cut += sum(content[place] not in opening for place in ends)

    assert cut <= len(rows), (
        "one span of a row is cut, or grows, to have as many tokens as asked for"
    )


@pytest.mark.parametrize(
    "name", ["sentence_reordering", "document_rotation", "token_deletion", "text_infilling"]
)
def test_sentence_starts_follow_their_tokens(name):
    """Every token of the corrupted row that began a sentence, and is still alone, begins one."""
    step = wide(name)
    rows = samples([1, 2, 9, 40, 120] * 30)
    text = TokenRows(rows.columns["ids"], rows.columns["sentence_starts"])
    numbered = TokenRows(
        type(text.ids)(np.arange(len(text.ids.values)) + 1000, text.ids.offsets),
        text.sentence_starts,
    )
    ids, noise = step.add_noise(
        numbered, RandomKeys(1, rows.fixed["uid"], np.zeros(len(rows), np.uint16))
    )
    after = step.sentence_starts_after(numbered, noise)

    for row in range(len(rows)):
        found = ids[row].tolist()
        old = numbered.ids[row]
        starts = after[row].tolist()

        assert starts[0] == 0
        assert (np.diff(after[row].astype(int)) > 0).all()
        assert starts[-1] < len(found)

        begins = set(old[numbered.sentence_starts[row]].tolist())
        marked = {found[start] for start in starts[1:]}
        for token in begins & set(found[1:]):
            assert token in marked or name == "text_infilling"
        if name == "text_infilling":
            _starts_between_marks(found, starts, old, begins)


def _starts_between_marks(found, starts, old, begins):
    """A kept start is a start, or a mark of length 0 is before it and begins the sentence."""
    for place, token in enumerate(found[1:], 1):
        if token in begins:
            assert place in starts or found[place - 1] == MASK
    for start in starts[1:]:
        assert found[start] in begins or MASK in (found[start], found[start - 1])


def test_rows_that_passed_are_counted():
    objective = wide("composition", steps=THREE)
    rows = samples([1, 1, 5, 40, 0], sentences=1)
    examples, _ = objective.corrupt(rows, np.zeros(5, np.uint16), 1)

    assert objective.tally(examples) == {
        "passed_through": {"sentence_reordering": 4, "document_rotation": 2}
    }


# Rows of mBART (arXiv 2001.08210 §2.2)
# --------------------------------------------------------------------------------

TEXT = "Hard work leads to success. Success brings happiness."
TOKENS = {"en": "<en>", "de": "<de>"}
DE = FIRST_CONTENT
EN = FIRST_CONTENT + 1


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    options = Word.Options(size=170, min_frequency=1, reserved=["<de>", "<en>"])
    save_tokenizer(Word.train([TEXT, " Success"], options, folder), "word", folder)
    return load_tokenizer(folder), folder


@pytest.fixture(scope="module")
def words(tokenizer):
    """The vocabulary of that tokenizer, for a corpus whose rows have the codes 0, 1, 2 for de, en,
    fr."""
    return replace(tokenizer[0].vocabulary, folder=tokenizer[1], languages=("de", "en", "fr"))


def mbart(words, **options):
    return wide(
        "composition", words, **{"source_head": "none", "language_tokens": TOKENS, **options}
    )


def in_languages(rows, codes):
    return RowBatch({**rows.fixed, "language": np.array(codes, np.uint8)}, rows.columns)


def content(lengths, codes, words):
    """Rows of ids that are not special."""
    rows = in_languages(samples(lengths, words, sentences=3), codes)
    rows.columns["ids"].values[:] = EN + 1 + rows.columns["ids"].values % (words.size - EN - 1)
    return rows


@pytest.mark.parametrize("languages", [("de", "en", "fr"), ("deu_Latn", "eng_Latn", "fra_Latn")])
def test_rows_by_hand(tokenizer, words, languages):
    """Two sentences change places; a row of a language without a token is skipped with a reason."""
    tokenizer, _ = tokenizer
    ids = tokenizer.encode([TEXT])[0].ids
    words = replace(words, languages=languages)
    objective = mbart(words, steps=["sentence_reordering"])
    rows = in_languages(one_sample(ids, [0, 6], words, 3), [1, 0, 2])
    examples, skips = objective.corrupt(rows, np.zeros(3, np.uint16), 1)
    shown = {
        name: [
            "".join(tokenizer.piece(int(token)) for token in examples.columns[name][row])
            for row in range(2)
        ]
        for name in ("input_ids", "target_ids")
    }

    swapped = " Success brings happiness.Hard work leads to success."

    assert shown["input_ids"] == [f"{swapped}</s><en>", f"{swapped}</s><de>"]
    assert shown["target_ids"] == [f"{TEXT}</s><en>", f"{TEXT}</s><de>"]
    assert [Skip(code) for code in skips] == [
        Skip.NONE,
        Skip.NONE,
        Skip.NO_LANGUAGE_TOKEN,
    ]
    assert Skip.NO_LANGUAGE_TOKEN.reason == "no_language_token"
    assert objective.form.decoder_start == "target_end"

    first = mbart(words, language_tokens={"fr": tokenizer.piece(0)})

    assert not first.corrupt(rows, np.zeros(3, np.uint16), 1)[1][2], "0 is an id as others"


def test_the_noise_is_that_of_rows_without_language_tokens(words):
    """A row of `max_length` tokens has room for one content token less.

    All others are BART's, and can be undone.
    """
    rows = content([1, 5, 40, 300], [0, 1, 1, 0], words)
    objective = mbart(words)
    bart = mbart(words, language_tokens={})
    examples, skips = objective.corrupt(rows, np.zeros(4, np.uint16), 1)
    plain, _ = bart.corrupt(rows, np.zeros(4, np.uint16), 1)

    assert not skips.any()
    assert objective.content_length == bart.content_length - 1 == 700 - 2

    for example, without, language in zip(examples, plain, [DE, EN, EN, DE], strict=True):
        for name in ("input_ids", "target_ids"):
            assert example[name].tolist() == [*without[name].tolist(), language]
        assert np.array_equal(objective.restore(example), bart.restore(without))


def test_two_languages_in_one_example_are_damage(words):
    rows = content([40], [1], words)
    objective = mbart(words)
    example = next(iter(objective.corrupt(rows, np.zeros(1, np.uint16), 1)[0]))
    target = example["target_ids"].copy()
    target[-1] -= 1
    with pytest.raises(ValueError, match="different language tokens"):
        objective.restore(ShardRow(example.fixed, {**example.columns, "target_ids": target}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grouping": "packed"}, "language_tokens needs grouping: document"),
        (
            {"language_tokens": {"en": "<e>", "xx": "<xx>"}},
            r"no special piece <e>; train it with .*\[<e>, \.\.\.\]",
        ),
        ({"language_tokens": {"en": "<en>", "de": "<en>"}}, "two languages have the same token"),
        ({"steps": [{"name": "text_infilling", "language_tokens": TOKENS}]}, "language_tokens"),
    ],
)
def test_refusals(words, options, message):
    with refused(message):
        mbart(words, **options)


def test_rows_whose_languages_have_no_names_are_refused():
    with refused("these rows do not name their languages"):
        mbart(WORDS).corrupt(samples([40]), np.zeros(1, np.uint16), 1)
