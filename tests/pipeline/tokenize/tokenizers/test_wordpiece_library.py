"""WordPiece chunk by chunk: ids and offsets of the library on the whole text, or no encoder."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from clozeline.pipeline.tokenize.tokenizers._wordpiece_library import word_encoder
from tests.pipeline.tokenize.published.published_files import NASTY, corpus, wordpiece

LETTERS = "theca ΣσAß#İ中.,x\n\r\t\x0b\x0c\x1c\x85\xa0\u0301\u0323\u00ad\u200b\u2028\u3000\0\ufffd"
NORMALISERS = {
    "none": None,
    "lower": normalizers.BertNormalizer(lowercase=True),
    "cased": normalizers.BertNormalizer(lowercase=False),
    "accents": normalizers.BertNormalizer(lowercase=False, strip_accents=True),
    "kept": normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=False, lowercase=True, strip_accents=False
    ),
}


@pytest.fixture(scope="module", params=NORMALISERS)
def case(request, tmp_path_factory):
    path = wordpiece(tmp_path_factory.mktemp("words"), cased=True)
    names = path.read_text(encoding="utf-8").splitlines()
    library = Tokenizer(models.WordPiece({name: number for number, name in enumerate(names)}, unk_token="[UNK]"))
    if NORMALISERS[request.param]:
        library.normalizer = NORMALISERS[request.param]
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece()
    return library, word_encoder(library, json.loads(library.to_str()), set(), np.uint16)


def compare(case, texts):
    library, encoder = case
    for text, found in zip(texts, encoder.encode(texts), strict=True):
        row = library.encode(text, add_special_tokens=False)
        assert found.ids.tolist() == row.ids, text
        assert found.ids.dtype == np.uint16
        assert found.starts.tolist() == [start for start, _ in row.offsets], text


def test_ids_and_offsets_are_the_librarys(case):
    compare(case, [*NASTY, *corpus()[:9], "the  cat " + "x" * 65 + " cat\n" + "x" * 65, "the cat" * 400])
    compare(case, NASTY)


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.one_of(st.sampled_from(LETTERS), st.characters(codec="utf-8")), max_size=60))
def test_ids_and_offsets_of_any_text_are_the_librarys(case, text):
    compare(case, [text, text + " the"])


def test_the_library_gets_each_chunk_once(case):
    library, _ = case
    asked = []

    class Asked:
        def encode(self, text, *, add_special_tokens):
            asked.append(text)
            return library.encode(text, add_special_tokens=add_special_tokens)

    encoder = word_encoder(Asked(), json.loads(library.to_str()), set(), np.uint16)
    encoder.encode(["the cat the", "cat the", "the mat"])
    assert [sorted(text.split("\n")) for text in asked] == [["cat", "the"], ["mat"]]


CHANGES = {
    "model": lambda facts: facts.update(model={**facts["model"], "type": "BPE"}),
    "metaspace": lambda facts: facts.update(pre_tokenizer={"type": "Metaspace"}),
    "no words": lambda facts: facts.update(pre_tokenizer=None),
    "composed": lambda facts: facts.update(normalizer={"type": "NFC"}),
    "found in text": lambda facts: facts["added_tokens"].append({"content": "the cat"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_may_cross_white_space_has_no_encoder(case, change):
    facts = copy.deepcopy(json.loads(case[0].to_str()))
    CHANGES[change](facts)
    assert word_encoder(case[0], facts, {"[MASK]"}, np.uint16) is None


def test_special_tokens_are_not_found_in_text(case):
    facts = json.loads(case[0].to_str())
    facts["added_tokens"].append({"content": "[MASK]"})
    assert word_encoder(case[0], facts, {"[MASK]"}, np.uint16) is not None
