"""Published `tokenizer.json` files: pieces as text, holes, ids on real texts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import zstandard
from tokenizers import Tokenizer, models, pre_tokenizers

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers._published import Published
from clozeline.pipeline.tokenize.tokenizers.tokenizer_json import TokenizerJson, pieces_of, read_json
from tests.pipeline.tokenize.published.published_files import byte_level, t5_model, unigram_json, wordpiece
from tests.pipeline.tokenize.tokenizers.real_texts import DATA, all_texts

PUBLISHED = (byte_level, unigram_json, wordpiece, t5_model)


def test_pieces_are_spelt_by_the_models_kind(tmp_path):
    merged = import_tokenizer(byte_level(tmp_path), tmp_path / "a")
    assert merged.decode(merged.encode([" naïve\n中<|endoftext|>"])[0].ids) == " naïve\n中<|endoftext|>"
    pieces = import_tokenizer(unigram_json(tmp_path / "j"), tmp_path / "b")
    assert pieces.decode(pieces.encode(["the cat"])[0].ids) == " the cat"
    assert pieces.decode([1]) == "</s>"


def test_the_file_written_neither_cuts_nor_pads(tmp_path):
    import_tokenizer(unigram_json(tmp_path), tmp_path / "out")
    facts = json.loads((tmp_path / "out" / "tokenizer.json").read_text())
    assert facts["truncation"] is facts["padding"] is None


def test_pieces_are_in_the_order_of_their_ids_without_holes(tmp_path):
    facts = read_json(unigram_json(tmp_path))
    assert pieces_of(facts, "x")[:4] == ["<pad>", "</s>", "<unk>", "<mask_1>"]
    facts["added_tokens"].append({"content": "<x>", "id": 99, "special": True})
    with pytest.raises(ConfigurationError, match="got 99 "):
        pieces_of(facts, "x")
    with pytest.raises(IntegrityError, match="not a tokenizer"):
        read_json(tmp_path / "none.json")


def added(content, token, **flags):
    plain = dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized", "special"), False)
    return {"content": content, "id": token, **plain, **flags}


def test_an_added_token_with_another_id_than_in_the_library_is_refused(tmp_path):
    facts = read_json(unigram_json(tmp_path))
    size = len(facts["model"]["vocab"])
    facts["added_tokens"] += [added("<t>", size + 1), added("<s>", size)]
    with pytest.raises(ConfigurationError, match=f"'<t>' has the id {size + 1} in the file, {size} in the"):
        TokenizerJson(facts, Published())


@pytest.mark.data
@pytest.mark.skipif("CLOZELINE_DATA" not in os.environ, reason="CLOZELINE_DATA names no folder of real files")
def test_ids_of_real_texts_are_the_librarys(tmp_path):
    folder = Path(os.environ[DATA]) / "hf"
    texts = all_texts(20_000)
    assert len(texts) > 200
    gpt2 = Tokenizer(models.BPE.from_file(str(folder / "gpt2" / "encoder.json"), str(folder / "gpt2" / "vocab.bpe")))
    gpt2.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw = zstandard.ZstdDecompressor().stream_reader((folder / "pegasus" / "tokenizer.json.zst").read_bytes()).read()
    (tmp_path / "tokenizer.json").write_bytes(raw)
    pegasus = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    pegasus.no_truncation()
    pegasus.encode_special_tokens = True
    for path, peer in ((folder / "gpt2" / "encoder.json", gpt2), (tmp_path / "tokenizer.json", pegasus)):
        ours = import_tokenizer(path, tmp_path / "out")
        special = ours.vocabulary.special
        for text, encoding in zip(texts, ours.encode(texts), strict=True):
            theirs = peer.encode(text, add_special_tokens=False).ids
            assert encoding.ids.tolist() == theirs or (special[theirs].any() and "<" in text)
