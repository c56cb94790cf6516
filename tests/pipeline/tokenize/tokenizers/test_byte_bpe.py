import json
import random
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from clozeline.errors import IntegrityError
from clozeline.pipeline.tokenize.tokenizers._pieces import ENCODING_CUT as LIMIT
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe

SPACES = "\t\n\x0b\x0c\r \x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2007\u200a\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"

MIXED = "elstdvm''.,12A_é中½“\u0301 "


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bpe")
    draw = random.Random(1)
    words = ["low", "lower", "newest", "widest", "don't", "état", "中文字", "...", "12", "345"]
    texts = ["  ".join(draw.choices(words, k=50)) + "\n\n  " + " ".join(draw.choices(words, k=50)) for _ in range(50)]
    # Merges between every two neighbours, so that a cut in a wrong place shows.
    texts += ["".join(draw.choices(MIXED, k=400)) for _ in range(50)]
    ByteBpe.train(texts, ByteBpe.Options(size=1200), folder)
    return folder


@pytest.fixture(scope="module")
def pair(folder):
    library = Tokenizer.from_file(str(folder / "tokenizer.json"))
    library.encode_special_tokens = True
    return ByteBpe.load(folder), library


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.one_of(st.sampled_from(SPACES), st.sampled_from(MIXED), st.characters(codec="utf-8"))))
def test_the_ids_are_those_that_the_library_gives_a_text(pair, text):
    assert_same_ids(pair, text)


def test_the_ids_of_mixed_texts_are_the_librarys(pair):
    draw = random.Random(2)
    for _ in range(2000):
        assert_same_ids(pair, "".join(draw.choices(MIXED, k=draw.randrange(30))))


def assert_same_ids(pair, text):
    ours, library = pair
    assert ours.encode([text])[0].ids.tolist() == library.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("before", ["", "é low. ", "12"])
def test_a_word_that_is_longer_than_is_encoded_at_once_is_cut_from_its_beginning(pair, before):
    ours, library = pair
    word = "lowerwi" * (LIMIT // 7 + 5)  # the cut falls one or two letters after a multiple of seven
    parts = [before, word[:LIMIT], word[LIMIT:], " lower"]
    if before.endswith(" "):
        parts = [before[:-1], " " + word[: LIMIT - 1], word[LIMIT - 1 :], " lower"]
    wanted = [token for part in parts for token in library.encode(part, add_special_tokens=False).ids]
    assert ours.encode([before + word + " lower"])[0].ids.tolist() == wanted
    assert wanted != library.encode(before + word + " lower", add_special_tokens=False).ids


def test_a_file_with_a_gap_in_its_ids_is_named(folder, tmp_path):
    plain = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    name, last = max(plain["model"]["vocab"].items(), key=lambda item: item[1])
    plain["model"]["vocab"][name] = last + 1
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "tokenizer.json").write_text(json.dumps(plain), encoding="utf-8")
    with pytest.raises(IntegrityError, match=r"tokenizer\.json: .*expected the ids 0 .. \d+ without holes.*; copy it"):
        ByteBpe.load(tmp_path)
