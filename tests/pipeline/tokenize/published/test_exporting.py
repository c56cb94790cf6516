"""Exported directories load in transformers, offline, with every special token."""

import json

import pytest
import tokenizers
from transformers import AutoConfig, AutoTokenizer

from clozeline.errors import IntegrityError
from clozeline.pipeline.tokenize.published.exporting import (
    END,
    PAIR,
    ExportTemplate,
    TextForm,
    export_tokenizer,
)
from clozeline.pipeline.tokenize.published.importing import PROBE_TEXTS, import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import list_trainable, load_tokenizer
from tests.pipeline.tokenize.published import published_files as files
from tests.pipeline.tokenize.tokenizers.test_tokenizer import trained
from tests.refusals import refused


def folders(name, folder):
    source = folder / "f"
    options = {}

    if name == "wordpiece":
        source = files.wordpiece(source)
        options = {"add": ["eos"]}
    elif name == "byte_level":
        source = files.byte_level(source)
        options = {"add": ["mask", "cls"]}
    elif name == "json":
        source = files.unigram_json(source)
    elif name in ("t5", "xlmr"):
        model = files.sentencepiece_model(source, **(files.LIKE_T5 if name == "t5" else {}))
        source = files.directory(model.parent, {"t5": "T5", "xlmr": "XLMRoberta"}[name])
    else:
        trained(name, folder / "t")
        return folder / "t"

    import_tokenizer(source, folder / "t", **options)
    return folder / "t"


PUBLISHED_AS = {
    "camembert": ("sentencepiece.bpe.model", {}),
    "xlm-roberta-xl": ("sentencepiece.bpe.model", {}),
    "pegasus": ("spiece.model", files.LIKE_T5),
    "umt5": ("spiece.model", files.LIKE_T5),
    "marian": ("own", {}),
}
"""File of a published tokenizer by the type of its model, and how SentencePiece makes it."""


@pytest.mark.parametrize("model_type", PUBLISHED_AS)
def test_an_exported_folder_of_a_type_loads_with_the_fast_tokenizer_and_the_same_ids(
    tmp_path, model_type, monkeypatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    (name, options), folder = PUBLISHED_AS[model_type], tmp_path / "t"

    if name == "own":  # the published one is no single tokenizer
        trained("unigram", folder)
    else:
        source = files.sentencepiece_model(tmp_path / "f", name, **options).parent
        (source / "config.json").write_text(json.dumps({"model_type": model_type}))
        import_tokenizer(source, folder)

    AutoConfig.for_model(model_type).save_pretrained(tmp_path / "out")
    report = export_tokenizer(folder, tmp_path / "out")
    ours = load_tokenizer(folder)
    theirs = AutoTokenizer.from_pretrained(tmp_path / "out")

    assert theirs.is_fast
    assert len(theirs) == ours.vocabulary.size
    assert {
        role: getattr(theirs, f"{role}_token_id") for role in ours.vocabulary.specials
    } == ours.vocabulary.specials
    # tokenizers cannot tell the mark of a space from a space, and finds special pieces in text
    texts = [
        text
        for text in (*files.NASTY, *files.corpus()[:9])
        if not any(x in text for x in (*files.SPECIALS, "▁"))
    ]

    equal = [
        theirs(text, add_special_tokens=False).input_ids == ours.encode([text])[0].ids.tolist()
        for text in texts
    ]

    assert len(texts) > 25
    assert not [text for text, same in zip(texts, equal, strict=True) if not same]
    assert all("▁" in text or "<mask>" in text for text in report.differing)


@pytest.mark.parametrize(
    "name", ["wordpiece", "byte_level", "t5", "xlmr", "json", *list_trainable()]
)
def test_transformers_loads_every_special_token_and_the_same_ids(tmp_path, name, monkeypatch):
    """But for the texts that the report names, special tokens split."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = folders(name, tmp_path)
    ours = load_tokenizer(folder)
    out = tmp_path / "out"
    vocabulary = ours.vocabulary

    assert export_tokenizer(folder, out).texts == 200

    texts = [
        *PROBE_TEXTS[::7],
        *(f"the {ours.piece(token)} cat" for token in vocabulary.specials.values()),
    ]
    report = export_tokenizer(folder, out, TextForm(max_length=77), texts=texts)
    theirs = AutoTokenizer.from_pretrained(out)

    assert len(theirs) == vocabulary.size
    assert report.published or theirs.model_max_length == 77

    if not report.published and "mask" in vocabulary.specials:  # it strips the space before it
        before = ours.encode(["the"])[0].ids.tolist()
        mask = vocabulary.specials["mask"]
        assert theirs(f"the {ours.piece(mask)}", add_special_tokens=False).input_ids == [
            *before,
            mask,
        ]

    for role in ("pad", "cls", "sep", "mask", "bos", "eos", "unk"):
        assert getattr(theirs, f"{role}_token_id") == vocabulary.specials.get(role)
    for token in (*vocabulary.sentinels, *vocabulary.modes.values()):
        assert ours.piece(token) in theirs.all_special_tokens
    for text in ("the cat sat. unaffable", "the cat " * 500):
        found = theirs(text, add_special_tokens=False, verbose=False).input_ids
        assert found == ours.encode([text])[0].ids.tolist()

    found = [
        theirs(text, add_special_tokens=False, split_special_tokens=True).input_ids
        for text in texts
    ]
    pairs = zip(texts, found, strict=True)

    assert report.differing == [
        text for text, ids in pairs if ids != ours.encode([text])[0].ids.tolist()
    ]


def test_a_publisher_whose_files_were_damaged_since_is_named(tmp_path):
    (model,) = (folders("t5", tmp_path) / "source").glob("*.model")
    model.write_bytes(b"cut")
    with pytest.raises(IntegrityError, match=r"source: transformers cannot read it: .*copy"):
        export_tokenizer(tmp_path / "t", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_special_tokens_of_a_publisher_are_compared_with_its_own_files(tmp_path):
    source = files.directory(files.byte_level(tmp_path / "f").parent, "GPT2")
    import_tokenizer(source, tmp_path / "t", add=["mask"])
    report = export_tokenizer(tmp_path / "t", tmp_path / "out", texts=["the"])
    assert (report.texts, report.differing) == (2, []), "the given text, and one with the end token"


def test_frames(tmp_path):
    folder = folders("wordpiece", tmp_path)
    read = lambda: tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))  # noqa: E731
    export_tokenizer(folder, tmp_path / "out", TextForm(type_ids=True))

    assert read().encode("the", "cat").tokens == ["[CLS]", "the", "[SEP]", "cat", "[SEP]"]
    assert read().encode("the", "cat").type_ids == [0, 0, 0, 1, 1]
    assert (
        "token_type_ids"
        in json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())["model_input_names"]
    )

    export_tokenizer(folder, tmp_path / "out", TextForm(frame=END))

    assert read().encode("the").tokens == ["the", "</s>"]

    export_tokenizer(folder, tmp_path / "out", TextForm(frame=ExportTemplate()))

    assert read().encode("the").tokens == ["[CLS]", "the", "[SEP]"], "the template of its publisher"

    export_tokenizer(
        folder, tmp_path / "out", TextForm(frame=ExportTemplate(("cls",), ("sep", "sep"), ("sep",)))
    )

    assert read().encode("the", "cat").tokens == ["[CLS]", "the", "[SEP]", "[SEP]", "cat", "[SEP]"]

    with refused(r"the special tokens around exported rows needs .*'cls'"):
        export_tokenizer(folders("json", tmp_path / "j"), tmp_path / "out", TextForm(frame=PAIR))
