from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from clozeline.errors import StorageError
from clozeline.pipeline.text.sentences.regex import Regex
from clozeline.pipeline.tokenize.encode import tokenize_documents as tokenise
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from tests.pipeline.tokenize.encode import encode_passes as passes


def test_sentence_starts_decode_to_the_sentences(encoded, tokenizer):
    model, splitter = load_tokenizer(tokenizer), Regex(Regex.Options())
    found = passes.token_rows(encoded)
    for document in passes.documents(passes.COUNT):
        _, ids, starts, _, _ = found[document.uid]
        bounds = [*starts.tolist(), len(ids)]
        assert bounds[0] == 0
        assert all(np.diff(bounds) > 0)
        slices = [model.decode(ids[a:b]).strip() for a, b in pairwise(bounds)]
        offsets = [*splitter.starts(document.text, document.language), len(document.text)]
        assert slices == [document.text[a:b].strip() for a, b in pairwise(offsets)]


def test_a_part_that_is_missing_is_an_error(tokenizer, tmp_path):
    source = passes.write_parts(tmp_path / "clean", passes.documents(8), 2)
    (source / "documents" / "000001.arrow").unlink()
    with pytest.raises(StorageError, match=r"000001\.arrow: missing"):
        passes.encode(source, tmp_path / "encode", tokenizer, parts=2, shards=2)


def test_batches_hold_all_documents_in_order_within_both_bounds(monkeypatch):
    monkeypatch.setattr(tokenise, "_BATCH_DOCUMENTS", 4)
    monkeypatch.setattr(tokenise, "_BATCH_CHARACTERS", 1500)
    documents = passes.documents(40)
    batches = list(tokenise._batches(documents))
    assert [document for batch in batches for document in batch] == documents
    for batch in batches[:-1]:
        characters = [len(document.text) for document in batch]
        assert len(batch) == 4 or sum(characters) >= 1500 > sum(characters[:-1])
    assert {3, 4} <= {len(batch) for batch in batches}


def test_a_pair_keeps_its_other_side_and_an_empty_text_has_no_tokens(tokenizer):
    documents = passes.documents(6)
    documents[1] = documents[1].replace(target_text="the lazy dog")
    documents[3] = documents[3].replace(text="", target_text="a fox")
    documents[4] = documents[4].replace(target_text="")
    model = load_tokenizer(tokenizer)
    found = list(tokenise.token_documents(documents, model, Regex(Regex.Options())))
    assert [item.document for item in found] == documents
    assert [model.decode(item.target_ids) for item in found] == ["", "the lazy dog", "", "", "", ""]
    assert [len(item.ids) == 0 for item in found] == [number == 3 for number in range(6)]
    assert (found[3].sentences, len(found[3].sentence_starts)) == (0, 0)


def test_a_tokenizer_written_again_is_loaded_again(tokenizer):
    first = tokenise._tokenizer(tokenizer, 1)
    assert tokenise._tokenizer(tokenizer, 1) is first
    assert tokenise._tokenizer(tokenizer, 2) is not first
