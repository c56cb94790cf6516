from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertTokenizerFast

from clozeline.extensions.tasks.sets.task_rows import FRAMES, Form, truncate_lengths
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from tests.pipeline.task_files import write_vocabulary
from tests.refusals import refused

SIZES = st.integers(1, 40)
WORDS = [str(number) for number in range(40)]
LIBRARY = Tokenizer(
    models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="0")
)
LIBRARY.pre_tokenizer = pre_tokenizers.WhitespaceSplit()


def cut_by_the_library(lengths, room):
    LIBRARY.enable_truncation(room, strategy="longest_first")
    types = LIBRARY.encode(*(" ".join(WORDS[:length]) for length in lengths)).type_ids
    return [types.count(0), types.count(1)]


@given(SIZES, SIZES, st.integers(2, 40))
def test_longest_first(first, second, room):
    """Of an odd room, the longer text has one token more, as of two equally long ones the
    second."""
    assert truncate_lengths([first, second], room) == cut_by_the_library([first, second], room)


@pytest.mark.parametrize(
    "texts",
    [
        ("a good film",),
        ("a very good film with heart", "not bad"),
        ("a", "one dull plot . no heart"),
        ("a very good film", "one dull plot ."),
    ],
)
@pytest.mark.parametrize("max_length", [8, 9, 30])
def test_rows_of_bert_are_those_of_transformers(tmp_path, texts, max_length):
    path = write_vocabulary(tmp_path / "words")
    theirs = BertTokenizerFast(str(path))(*texts, truncation="longest_first", max_length=max_length)
    ours = import_tokenizer(path, tmp_path / "ours")
    encoded = [encoding.ids for encoding in ours.encode(texts)]
    row = FRAMES["bert"].row(encoded, ours.vocabulary, max_length)

    assert row.ids.tolist() == theirs["input_ids"]
    assert row.cut == sum(map(len, encoded)) + len(texts) + 1 - len(row.ids)

    types = np.zeros(len(row.ids), np.int64)
    for start in row.segment_starts[1:]:
        types[start:] = 1

    assert types.tolist() == theirs["token_type_ids"]


@pytest.mark.parametrize(
    ("frame", "row"),
    [
        ("roberta", "[CLS] a [SEP] [SEP] not bad [SEP]"),
        ("gpt1", "<s> a [SEP] not bad [CLS]"),
        ("gpt", "a </s> not bad </s>"),
        ("llama", "<s> a </s> not bad </s>"),
        ("bart", "<s> a </s> </s> not bad </s>"),
        ("t5", "a </s> not bad </s>"),
        ("t5_encoder", "a </s> not bad </s>"),
    ],
)
def test_rows_of_a_pair(tmp_path, frame, row):
    """A decoder's row has no end that is its padding, too: classes of transformers read the token
    before it."""
    path = write_vocabulary(tmp_path / "words")
    ours = import_tokenizer(path, tmp_path / "ours", add=("bos", "eos"))
    texts = [encoding.ids for encoding in ours.encode(("a", "not bad"))]
    specials = ours.vocabulary.specials
    ids = FRAMES[frame].row(texts, ours.vocabulary, 30).ids.tolist()

    assert " ".join(map(ours.piece, ids)) == row

    padded = FRAMES[frame].without_pad(specials | {"pad": specials["eos"]})
    has_end = FRAMES[frame].architecture != "decoder" or frame == "gpt1"

    assert padded.row(texts, ours.vocabulary, 30).ids.tolist() == (ids if has_end else ids[:-1])


def test_a_vocabulary_without_the_frame(tmp_path):
    whole = import_tokenizer(write_vocabulary(tmp_path / "words"), tmp_path / "ours").vocabulary
    whole = replace(whole, specials={**whole.specials, "eos": 5})

    for name, lacking in (("bert", "cls"), ("roberta", "cls"), ("t5", "eos"), ("t5", "pad")):
        frame = FRAMES[name]
        frame.check(whole)

        with refused(rf"tasks\.frame\) needs the special token '{lacking}'"):
            frame.check(
                replace(whole, specials={role: 0 for role in ("pad", "eos") if role != lacking})
            )

    pad, eos = whole.specials["pad"], (whole.specials["eos"],)
    form = RowForm(is_fixed=True, decoder_start=pad, between=eos, tail=eos, longest_input=9)
    assert FRAMES["t5"].row_form(whole, 9) == form


@pytest.mark.parametrize(
    ("stride", "room", "step"), [(None, 126, 63), (None, 1, 1), (128, 317, 128), (128, 60, 30)]
)
def test_steps_of_windows(stride, room, step):
    assert Form(FRAMES["bert"], 128, stride).step(room) == step
