"""Folders of other projects: the ids of AutoTokenizer for every key that its classes read, or
refused by name."""

import base64

import numpy as np
import pytest
import transformers

from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.pipeline.tokenize.tokenizers._published import PublishedMetadata
from tests.pipeline.tokenize.published import published_files as files
from tests.pipeline.tokenize.published.published_folders import (
    CUT,
    FOLDERS,
    bert,
    byte_level,
    dropout,
    library,
    suffixed,
    words,
    write,
)
from tests.refusals import refused

MORE = [
    "Müde ÜBER 中文。",
    "the millpond watershed, watersheds",
    "1,000 don't ``x'' a<think>b </think>",
    "x\r\ny\u3000z\u00a0",
]
TEXTS = [*files.NASTY, *MORE, *files.corpus()[:16]]


def load(folder):
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    if getattr(theirs.backend_tokenizer.model, "dropout", None):
        theirs.backend_tokenizer.model.dropout = None
    return theirs


def check(folder, out, theirs, **options):
    """Import a folder; compare it with transformers' reading of it in this process."""
    ours = import_tokenizer(folder, out, **options)
    special = [ours.piece(token) for token in np.flatnonzero(ours.vocabulary.special)]
    encodings = ours.encode(TEXTS)
    rows = [encoding.ids for encoding in encodings]

    for text, encoding in zip(TEXTS, encodings, strict=True):
        assert len(encoding.starts) == len(encoding.ids)
        assert (np.diff(encoding.starts) >= 0).all(), text
        assert ((encoding.starts >= 0) & (encoding.starts < max(len(text), 1))).all(), text

    plain = [
        number for number, text in enumerate(TEXTS) if not any(piece in text for piece in special)
    ]

    assert len(plain) > 30

    expected = theirs(TEXTS, add_special_tokens=False)["input_ids"]

    assert [rows[number].tolist() for number in plain] == [expected[number] for number in plain]
    # text never becomes a special piece but the unknown one
    outside = ours.vocabulary.special.copy()
    outside[ours.vocabulary.specials.get("unk", 0)] &= "unk" not in ours.vocabulary.specials
    for piece in special:
        (encoding,) = ours.encode([f"a {piece} b\0{piece}"])
        assert not outside[encoding.ids].any(), piece
    # each added token has the id of the file, and an ordinary one is found in text
    for token, entry in theirs.added_tokens_decoder.items():
        assert ours.piece(token) == entry.content
        if not entry.special:
            assert token in ours.encode([f" {entry.content} "])[0].ids

    assert ours.vocabulary.size == max(theirs.get_vocab().values()) + 1

    for role, token in ours.vocabulary.specials.items():
        assert getattr(theirs, f"{role}_token_id") in (token, None)

    assert load_tokenizer(out).vocabulary.fingerprint == ours.vocabulary.fingerprint

    return ours


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_has_the_ids_of_transformers(tmp_path, name):
    folder = FOLDERS[name](tmp_path / "in")
    theirs = load(folder)
    ours = check(folder, tmp_path / "out", theirs)
    theirs.save_pretrained(tmp_path / "saved")
    again = check(tmp_path / "saved", tmp_path / "again", load(tmp_path / "saved"))

    assert again.vocabulary.size == ours.vocabulary.size


def test_a_note_names_what_is_left_out(tmp_path):
    import_tokenizer(dropout(tmp_path / "in"), tmp_path / "out")

    assert any("dropout 0.5" in note for note in PublishedMetadata.find(tmp_path / "out").notes)

    import_tokenizer(FOLDERS["special merges"](tmp_path / "merges"), tmp_path / "out2")

    assert any(
        note.startswith("2 merges") for note in PublishedMetadata.find(tmp_path / "out2").notes
    )

    folder = files.t5_model(tmp_path / "t5").parent
    (folder / "tokenizer_config.json").unlink()
    write(folder, config={"model_type": "t5"})
    ours = import_tokenizer(folder, tmp_path / "out3")

    assert [ours.piece(token) for token in ours.vocabulary.sentinels] == [
        f"<extra_id_{n}>" for n in range(100)
    ]
    assert any("model_type t5" in note for note in PublishedMetadata.find(tmp_path / "out3").notes)


REFUSED = {
    "auto_map": (
        lambda folder: write(
            bert(folder),
            tokenizer_config={
                "tokenizer_class": "OwnTokenizer",
                "auto_map": {"AutoTokenizer": [None, "own.Own"]},
            },
        ),
        "needs code of the folder",
    ),
    "XLM": (lambda folder: suffixed(folder, "XLM", "<unk>"), "sacremoses"),
    "CTRL": (
        lambda folder: suffixed(folder, "CTRL", "<unk>"),
        "CTRLTokenizer, which the .tokenizers. library cannot",
    ),
    "unknown is the end": (
        lambda folder: library(
            folder,
            words("</s>"),
            pre_tokenizer=CUT(),
            config={"unk_token": "</s>", "eos_token": "</s>"},
        ),
        "which is also eos",
    ),
    "empty": (
        lambda folder: byte_level(folder, "Bert"),
        "336 of its 336 pieces have other ids in BertTokenizer",
    ),
    "letters": (lambda folder: write(folder, vocab={"a": 0, "b": 1}), "name the class"),
    "nothing": (lambda folder: write(folder, readme={}), "expected tokenizer.json, vocab.txt"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_by_name(tmp_path, name):
    make, said = REFUSED[name]
    with refused(said) as error:
        import_tokenizer(make(tmp_path / "in"), tmp_path / "out")
    assert str(tmp_path / "in") in str(error.value)


def test_old_names_of_gpt2_and_a_file_give_what_the_folder_gives(tmp_path):
    """Given `encoder.json` and `vocab.bpe`, GPT2Tokenizer is empty, without an error."""
    files.byte_level(tmp_path / "new")
    write(
        tmp_path / "new",
        tokenizer_config={"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True},
    )
    files.byte_level(tmp_path / "old", "encoder.json", "vocab.bpe")
    write(
        tmp_path / "old",
        tokenizer_config={"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True},
    )
    expected = import_tokenizer(tmp_path / "new", tmp_path / "a").vocabulary.fingerprint
    for number, source in enumerate(("new/vocab.json", "old", "old/encoder.json")):
        found = import_tokenizer(tmp_path / source, tmp_path / f"b{number}")
        assert found.vocabulary.fingerprint == expected


@pytest.mark.parametrize(
    ("family", "name"), [("GPT2", "x.tiktoken"), ("PreTrained", "tokenizer.model")]
)
def test_ranks_are_read_as_the_class_reads_vocabulary_and_merges(tmp_path, family, name):
    """Merging the neighbors of lowest rank until none is left."""
    ranks = [bytes([byte]) for byte in range(256)] + [
        b"th",
        b"the",
        b" t",
        b" the",
        b"ca",
        b"cat",
        b" c",
        b" cat",
    ]

    lines = [f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(ranks)]
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    kind = "GPT2Tokenizer" if family == "GPT2" else "PreTrainedTokenizerFast"
    ours = import_tokenizer(tmp_path / name, tmp_path / "out", tokenizer_class=kind)
    for text in ("the cat", "cat the", "thecat 中"):
        assert b"".join(ranks[token] for token in ours.encode([text])[0].ids) == text.encode()

    assert ours.encode(["the cat"])[0].ids.tolist() == [
        ranks.index(b"the"),
        ranks.index(b" cat"),
    ]

    with refused("name the class"):
        import_tokenizer(tmp_path / name, tmp_path / "other")

    # the type of the model decides, also where the folder has code of its own
    model = {"model_type": "gpt2" if family == "GPT2" else "mixtral"}
    write(
        tmp_path, config=model, tokenizer_config={"auto_map": {"AutoTokenizer": [None, "own.Own"]}}
    )
    theirs = import_tokenizer(tmp_path, tmp_path / "own")
    assert theirs.encode(["the cat"])[0].ids.tolist() == ours.encode(["the cat"])[0].ids.tolist()
    assert f"model_type {model['model_type']}" in " ".join(
        PublishedMetadata.find(tmp_path / "own").notes
    )


@pytest.mark.parametrize("family", ["Roberta", "Bart", "XLMRoberta"])
def test_a_saved_tokenizer_json_has_the_roles_of_its_class(tmp_path, family):
    """cls and sep stand in the class or the template alone."""
    if family == "XLMRoberta":
        folder = files.directory(
            files.sentencepiece_model(tmp_path / "x", "sentencepiece.bpe.model").parent, family
        )
    else:
        folder = byte_level(tmp_path / "x", family)

    saved = load(folder)
    saved.backend_tokenizer.save(str(tmp_path / "tokenizer.json"))
    tokenizer = import_tokenizer(tmp_path / "tokenizer.json", tmp_path / "out")
    roles = {
        role: getattr(saved, f"{role}_token_id")
        for role in ("pad", "cls", "sep", "mask", "bos", "eos", "unk")
    }

    assert tokenizer.vocabulary.specials == roles
