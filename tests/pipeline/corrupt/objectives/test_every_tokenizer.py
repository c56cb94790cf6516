"""Every tokenizer with every objective, over both folders: a hostile text is corrupted and given back."""

import numpy as np
import pytest

from clozeline import registry
from clozeline.pipeline.corrupt.objectives import Skip
from clozeline.pipeline.corrupt.preview.words import Text, TokenizerPieces, token_documents
from clozeline.pipeline.group.groupings import Context, build_grouping
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, trainable
from clozeline.pipeline.vocabulary import SPECIALS
from tests.declarations import declared
from tests.pipeline.corrupt.objectives.runner import wide
from tests.pipeline.tokenize.tokenizers.test_tokenizer import trained

NAMES = registry.names("clozeline.pipeline.tokenize.tokenizers")
PUBLISHED = [
    (name, write)
    for name in NAMES
    for write in declared("clozeline.pipeline.tokenize.tokenizers", name, "PUBLISHED", ())
]
"""Tokenizers with functions that write published files of theirs, from their own test files."""
ROLES = (*SPECIALS, "sentinels", "modes")

SENTENCES = (
    "The cat sat on the mat, and a\u0308 e\u0301\u0323 came too.",
    " שלום עולם: مرحبا بالعالم ١٢٣!",
    " 👩\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 🇩🇪 👍🏽 \U0010ffff.",
    " 你好，世界。これはペンです。",
    " ภาษาไทยไม่มีช่องว่าง",
    " a\x00b \x00\x00 \u0378\u0379.",
    " The <mask> and [MASK], [CLS] x [SEP] y [UNK] <unk> <extra_0> <extra_id_0> <R> <0x41> end.</s></s> <s>",
    "\n\n\ufeffOne\u200b\u00ad more\r\n\tline \u2581 Ġ .",
)
TEXTS = [
    Text(SENTENCES, "\u0301Der <mask> 猫 sat </s> \x00 \u0378."),
    Text(SENTENCES[::-1], "قطة"),
    Text(("the",), "cat"),
    Text(("\u0378",), "\u0378"),
    *(Text((one, *SENTENCES[:3]), one) for one in SENTENCES),
]


@pytest.fixture(
    scope="module",
    params=[*((name, None) for name in trainable()), *PUBLISHED],
    ids=lambda param: f"{param[0]} {param[1].__name__}" if param[1] else param[0],
)
def tokenizer(request, tmp_path_factory):
    """A trained tokenizer of each algorithm, and the published ones with the special tokens that they lack."""
    folder = tmp_path_factory.mktemp("tokenizer")
    name, write = request.param
    if write:
        return import_tokenizer(write(folder / "published"), folder / "ours", add=ROLES)
    trained(name, folder)
    return load_tokenizer(folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_tokenizer_can_be_trained_or_has_a_published_file(name):
    assert name in trainable() or name in dict(PUBLISHED), (
        f"set PUBLISHED in tests/pipeline/tokenize/tokenizers/test_{name}.py to functions that write a file, as in "
        "test_tokenizer_json.py"
    )


@pytest.mark.parametrize("name", registry.names("clozeline.pipeline.corrupt.objectives"))
def test_hostile_texts_are_accounted_for_corrupted_and_given_back(tokenizer, name):
    objective = wide(name, tokenizer.vocabulary)
    documents = token_documents(TokenizerPieces(tokenizer), TEXTS)
    grouping = build_grouping(objective.grouping, tokenizer.vocabulary)
    grouped = grouping.group(documents, objective.minimum, Context(objective.grouping.label, source_groups=("books",)))
    texts = [documents.columns["token_ids"]] + [documents.columns["target_ids"]] * ("target_tokens" in grouped.counts)
    assert grouped.counts["tokens_in"] == sum(len(one.values) for one in texts)
    dropped = sum(grouped.counts["tokens_dropped"].values())
    assert grouped.counts["tokens_in"] == grouped.counts["tokens_in_samples"] + dropped
    for variant in range(3):
        examples, skips = objective.corrupt(grouped.rows, np.full(len(grouped.rows), variant, np.uint16), seed=5)
        for sample, example, skip in zip(grouped.rows, examples, skips, strict=True):
            if not skip:
                assert np.array_equal(objective.uncorrupt(example), objective.original(sample, example))
            unknown = tokenizer.vocabulary.special[sample["ids"]].any()
            assert Skip(skip) in (Skip.NONE, Skip.NO_MASKABLE if unknown else Skip.NONE)
