"""Promises of every tokenizer; parametrised over the files of the folder."""

import random
import re
import shutil
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.configuration.config import validate
from clozeline.errors import IntegrityError
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.registries import TOKENIZERS
from clozeline.pipeline.tokenize.tokenizers import (
    find_tokenizer,
    list_trainable,
    load_tokenizer,
    save_tokenizer,
)
from clozeline.pipeline.vocabulary import SENTINELS, SPECIALS
from tests.contracts import cases_about, contract
from tests.declarations import declared
from tests.pipeline.tokenize.published.published_files import NASTY as PUBLISHED_NASTY
from tests.refusals import refused

NAMES = list_trainable()
WORDS = (
    "the quick brown fox jumps over a lazy dog and seven wizards brew strange purple "
    "potions near Köln 中文 東京"
).split()

RESERVED = (
    "<pad> <cls> <sep> <mask> <s> </s> <unk> <extra_0> <extra_127> <R> <S> <X> "
    "<reserved_0> <0x41> <0x0A>"
).split()

# GPT-2's table: printable Latin-1 is itself, the other bytes are characters from U+0100 on.
OTHERS = [*range(33), *range(127, 161), 173]
BYTES = {chr(byte): byte for byte in range(256) if byte not in OTHERS} | {
    chr(256 + i): b for i, b in enumerate(OTHERS)
}

NASTY = [
    *PUBLISHED_NASTY,
    "\n\n\n",
    " \n \n",
    *("a", " a", "a "),
    "   a   b      c   ",
    "x\n  y\n\tz\r\n",
    "שלום עולם",
    "مرحبا بالعالم ١٢٣",
    "你好，世界。これはペンです。",
    "👩\u200d👩\u200d👧 🏳\ufe0f\u200d🌈 🇩🇪 👍🏽",
    "\U0001f600\U00020000\U0010ffff",
    "\u2581\u2581x \u2581 y\u2581",
    "a\u2581b \u2581\n",
    "\x01\x1c\x1f\x7f\x85",
    *("<", "><", "<<mask>>", "<mask", "mask>", "<extra_ 0>"),
    *(part * 3000 for part in ("a", " ", "ab ", "\u2581", "中", ".")),
    *RESERVED,
    *(between.join(RESERVED) for between in (" ", "", "\n")),
]


def corpus():
    """Texts that hold every reserved piece, often: training must not learn from that how to write
    one."""
    draw = random.Random(3)
    return [
        " ".join(draw.choices(WORDS, k=60))
        + ".\n\n"
        + " ".join(draw.choices([*RESERVED, *WORDS], k=40))
        for _ in range(120)
    ]


def trained(name, folder, texts=None, **options):
    kind = TOKENIZERS.load_class(name)
    tokenizer = kind.train(
        texts or corpus(),
        validate(kind.Options, {"size": 480, **options}, name),
        folder,
    )
    save_tokenizer(tokenizer, name, folder)
    return tokenizer


@pytest.fixture(scope="module", params=cases_about(TOKENIZERS, NAMES, str))
def folder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    trained(request.param, folder)
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder):
    return load_tokenizer(folder)


def check(tokenizer, texts):
    """Round trip, no special id, offsets that point at the characters the tokens stand for."""
    for text, encoding in zip(texts, tokenizer.encode(texts), strict=True):
        if tokenizer.LOSS:
            check_lossy(tokenizer, text, encoding)
            continue

        assert tokenizer.decode(encoding.ids) == text
        assert not tokenizer.vocabulary.special[encoding.ids].any()
        assert encoding.ids.dtype == tokenizer.vocabulary.id_dtype
        # Independently: which character each byte belongs to.
        owners = [place for place, character in enumerate(text) for _ in character.encode()]
        position = 0
        ends = encoding.ends

        for number, (token, start) in enumerate(
            zip(encoding.ids.tolist(), encoding.starts.tolist(), strict=True)
        ):
            assert start == owners[position]
            position += len(_piece_bytes(tokenizer, token))
            assert ends is None or ends[number] == owners[position - 1] + 1


def check_lossy(tokenizer, text, encoding):
    """No special id but the unknown one.

    Offsets ascend, and what is known begins with the character there.
    """
    unknown = tokenizer.vocabulary.specials["unk"]
    special = tokenizer.vocabulary.special

    assert not special[encoding.ids[encoding.ids != unknown]].any()
    assert encoding.ids.dtype == tokenizer.vocabulary.id_dtype
    assert (np.diff(encoding.starts) >= 0).all()
    assert bool(len(encoding.ids)) >= bool(text.split() and text.isalnum())

    for token, start in zip(encoding.ids.tolist(), encoding.starts.tolist(), strict=True):
        shown = tokenizer.decode_part([token]).strip()
        assert token == unknown or not shown or text[start:].lstrip()[: len(shown)] == shown


def _piece_bytes(tokenizer, token):
    name = tokenizer.piece(token)
    if type(tokenizer).__name__ == "Character":
        return bytes([int(name[3:5], 16)]) if re.fullmatch("<0x..>", name) else name.encode()
    if tokenizer.FILE == "spiece.model":
        return (
            bytes([int(name[3:5], 16)])
            if re.fullmatch("<0x..>", name)
            else name.replace("\u2581", " ").encode()
        )

    return bytes(BYTES[character] for character in name)


def test_nasty_texts_come_back_and_never_become_special(tokenizer):
    check(tokenizer, NASTY)
    for text in NASTY:
        check(tokenizer, [text])


ANY = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=80)
PARTS = st.lists(
    st.sampled_from(
        [
            *RESERVED,
            " ",
            "\n",
            "a",
            "<",
            ">",
            "\u2581",
            "é",
        ]
    ),
    max_size=12,
).map("".join)


@settings(max_examples=250)
@given(texts=st.lists(ANY | PARTS, max_size=4))
def test_any_text_comes_back(tokenizer, texts):
    check(tokenizer, texts)


def test_long_texts_are_cut_without_a_trace_in_their_tokens(tokenizer):
    text = " ".join(random.Random(1).choices([*WORDS, "\n", "  "], k=27_000))

    assert len(text) > 2 * 65536

    pieces = text.split("\n")
    short = [f"\n{piece}" if number else piece for number, piece in enumerate(pieces)]
    join_pieces = np.concatenate([encoding.ids for encoding in tokenizer.encode(short)])
    whole = tokenizer.encode([text])[0].ids
    # White space at the cuts may be split otherwise; words never are.
    seen = {
        i
        for i in {
            *whole.tolist(),
            *join_pieces.tolist(),
        }
        if tokenizer.decode_part([i]).strip()
    }
    visible = [
        [tokenizer.piece(i) for i in ids.tolist() if i in seen] for ids in (whole, join_pieces)
    ]

    assert visible[0] == visible[1]

    check(tokenizer, ["x" * 140_000 + "  " + "y" * 70_000 + " " * 140_000])


def test_batches_do_not_matter(tokenizer):
    alone = [tokenizer.encode([text])[0] for text in NASTY]
    together = tokenizer.encode(NASTY)
    again = tokenizer.encode(NASTY[::-1])[::-1]
    for one, two, three in zip(alone, together, again, strict=True):
        np.testing.assert_array_equal(one.ids, two.ids)
        np.testing.assert_array_equal(one.starts, two.starts)
        np.testing.assert_array_equal(one.ids, three.ids)


@contract(TOKENIZERS, only=lambda name: name not in NAMES)
def test_a_published_tokenizer_gives_the_same_ids_in_batches_and_from_its_files(name, tmp_path):
    """`write_published` of its own test file writes one into `out`."""
    tokenizer = declared(TOKENIZERS.package, name, "write_published", None)(tmp_path)
    alone = [tokenizer.encode([text])[0].ids.tolist() for text in NASTY]
    assert [found.ids.tolist() for found in tokenizer.encode(NASTY)] == alone
    assert [found.ids.tolist() for found in load_tokenizer(tmp_path / "out").encode(NASTY)] == alone


def test_reserved_ids_come_first_and_are_the_special_ones(tokenizer):
    vocabulary = tokenizer.vocabulary

    assert [tokenizer.piece(i) for i in range(7)] == [
        "<pad>",
        "<cls>",
        "<sep>",
        "<mask>",
        "<s>",
        "</s>",
        "<unk>",
    ]
    assert [vocabulary.specials[name] for name in SPECIALS] == list(range(7))
    assert vocabulary.sentinels == tuple(range(7, 7 + SENTINELS))
    assert tokenizer.piece(7) == "<extra_0>"
    assert [tokenizer.piece(vocabulary.modes[mode]) for mode in "RSX"] == ["<R>", "<S>", "<X>"]
    assert np.flatnonzero(vocabulary.special).tolist() == list(range(7 + 128 + 3 + 16))
    assert tokenizer.piece(7 + 128 + 3 + 15) == "<reserved_15>"
    assert tokenizer.decode([3, 7]) == "<mask><extra_0>"


def test_word_start_is_white_space_or_a_character_of_an_unspaced_script(tokenizer):
    vocabulary = tokenizer.vocabulary

    assert not (vocabulary.word_start & vocabulary.special).any()

    if tokenizer.LOSS:
        return
    for token in np.flatnonzero(~vocabulary.special).tolist():
        text = _piece_bytes(tokenizer, token).decode(errors="replace")
        if text[0] == " " or text == "\n":
            assert vocabulary.word_start[token], text
        if text[0].isascii() and not text[0].isspace():
            assert not vocabulary.word_start[token], text

    for token in tokenizer.encode(["\n中"])[0].ids.tolist():
        assert vocabulary.word_start[token] == (_piece_bytes(tokenizer, token)[:1] in b"\n\xe4")


def test_words_are_those_between_white_space(tokenizer):
    """Newlines and tabs end a word, though no piece after them begins with a space."""
    draw = random.Random(5)
    spaced = [word for word in WORDS if word[0] < "\u0100"]

    for number in range(40):
        spaces = (" ", "\n", "\t", "\n\n  ", " \n", "  ", "\t\t", "\r\n", "\u3000")
        text = "".join(
            draw.choice(spaced) + draw.choice(spaces[: 2 + number % 8]) for _ in range(12)
        )
        found = [
            tokenizer.decode_part(word)
            for word in words_of(tokenizer, tokenizer.encode([text])[0].ids)
        ]
        # white space may be unknown
        known = [word.strip() for word in found if word.strip() not in ("", "<unk>")]

        assert known == text.split()
        assert tokenizer.LOSS or not any(word.strip() and word[0] in "\n\t\r" for word in found), (
            "but its space"
        )


def words_of(tokenizer, ids):
    """The tokens of each word of a text: a special token, the unknown one, is in none."""
    opens = tokenizer.vocabulary.opens_word(ids)
    special = tokenizer.vocabulary.special[ids]
    opens |= special
    opens[1:] |= special[:-1]
    opens[0] = True
    firsts = [*np.flatnonzero(opens).tolist(), len(ids)]
    return [ids[start:end].tolist() for start, end in pairwise(firsts)]


def test_training_twice_gives_one_fingerprint(folder, tmp_path):
    """Reserved pieces may have names: language tokens have ids, and no text of that spelling gives
    them."""
    name = (folder / "name").read_text().strip()
    again = trained(name, tmp_path)

    assert again.vocabulary.fingerprint == load_tokenizer(folder).vocabulary.fingerprint

    for path in folder.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    trained(name, tmp_path / "other", reserved=["<de>", "<en>"])
    other = load_tokenizer(tmp_path / "other")

    assert other.vocabulary.fingerprint != again.vocabulary.fingerprint

    ids = {other.piece(token): token for token in np.flatnonzero(other.vocabulary.special).tolist()}

    assert not {ids["<de>"], ids["<en>"]} & set(other.encode(["the <de> fox <en>"])[0].ids.tolist())


def test_sizes_that_a_text_does_not_support(folder, tmp_path):
    """Too little text gives the vocabulary it supports; too small a size names the least."""
    kind = TOKENIZERS.load_class((folder / "name").read_text().strip())
    tokenizer = kind.train(
        ["the cat sat on the mat, the cat sat"] * 3, kind.Options(size=5000), tmp_path
    )

    assert (154 if tokenizer.LOSS else 410) < tokenizer.vocabulary.size < 600

    check(tokenizer, NASTY)
    with refused(r"size 100 is too small.*need\s\d\d\d"):
        kind.train(corpus(), kind.Options(size=100), tmp_path)
    with refused("reserved"):
        validate(kind.Options, {"reserved": -1}, "test")


def test_special_ids_are_keys_of_the_training(folder, tmp_path):
    """Seven special ids stay, which rows need; what span corruption and UL2 alone need may go."""
    name = (folder / "name").read_text().strip()
    trained(name, tmp_path, sentinels=0, modes=False, reserved=0)
    tokenizer = load_tokenizer(tmp_path)
    vocabulary = tokenizer.vocabulary

    assert np.flatnonzero(vocabulary.special).tolist() == list(range(len(SPECIALS)))
    assert (vocabulary.sentinels, vocabulary.modes) == ((), {})

    check(tokenizer, [*WORDS, "the quick <extra_0> <R>"])

    assert (
        build_objective({"name": "masked_lm"}, vocabulary).first_token == vocabulary.specials["cls"]
    )

    with refused(r"sentinels, the tokenizer has 0; .*options` has `sentinels`"):
        build_objective({"name": "span_corruption"}, vocabulary)

    some = trained(name, tmp_path / "some", sentinels=3, reserved=["<de>"]).vocabulary
    first = len(SPECIALS)

    assert (some.sentinels, sorted(some.modes)) == ((first, first + 1, first + 2), ["R", "S", "X"])
    assert some.special.sum() == first + 3 + 3 + 1

    with refused(r"128 `sentinels`, 3 `modes`, 16 `reserved`.*train_tokenizer\.options"):
        trained(name, tmp_path / "small", size=100)


@pytest.mark.parametrize(
    ("name", "number"), [("byte_bpe", 128), ("character", 256), ("unigram", 256), ("word", 0)]
)
def test_single_bytes_of_rare_characters_are_marked(name, number, tmp_path):
    """The alphabet of byte-level BPE has characters in its first half.

    `<0x41>` is never the letter A.
    """
    vocabulary = trained(name, tmp_path).vocabulary
    assert vocabulary.byte_piece.sum() == number
    assert not (vocabulary.byte_piece & vocabulary.special).any()


def test_letters_of_proteins_take_33_ids(tmp_path):
    """As many as ESM's alphabet: 7 special ids, a spare one, 25 letters.

    Another letter is the unknown token.
    """
    letters = "LAGVSERTIDPKQNFYMHWCXBUZO"
    kind = TOKENIZERS.load_class("character")
    keys = {"sentinels": 0, "modes": False, "reserved": 1, "bytes": False}
    options = validate(kind.Options, {"size": 33, **keys}, "test")
    texts = [letters[: 25 - number] * 3 for number in range(20)]
    tokenizer = kind.train(texts, options, tmp_path)
    save_tokenizer(tokenizer, "character", tmp_path)
    tokenizer = load_tokenizer(tmp_path)

    assert tokenizer.vocabulary.size == 33
    assert sorted(map(tokenizer.piece, range(8, 33))) == sorted(letters)

    (row,) = tokenizer.encode(["MKV😀*A"])

    assert list(map(tokenizer.piece, row.ids)) == ["M", "K", "V", "<unk>", "<unk>", "A"]
    assert (row.starts.tolist(), row.ends.tolist()) == ([0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6])
    assert tokenizer.decode(row.ids[:3]) == "MKV"
    assert "missing in the training text" in tokenizer.loss

    library = tokenizer.to_tokenizers()

    assert library.encode("MKV😀*A", add_special_tokens=False).ids == row.ids.tolist()

    with refused("7 special pieces, 1 `reserved` and a character need 9"):
        kind.check_size(validate(kind.Options, {"size": 8, **keys}, "test"))

    with refused("16 `reserved` and 256 `bytes` and a character need 411"):
        kind.check_size(kind.Options(size=33))


def test_damaged_or_mixed_files_are_integrity_errors(folder, tokenizer, tmp_path):
    shutil.copytree(folder, tmp_path / "mixed")
    options = {"size": 470, "reserved": 17}
    kind = type(tokenizer)
    kind.train(corpus(), validate(kind.Options, options, "test"), tmp_path / "mixed")
    with pytest.raises(IntegrityError, match="restore both files"):
        load_tokenizer(tmp_path / "mixed")
    (tmp_path / "mixed" / tokenizer.FILE).write_bytes(b"nonsense")
    with pytest.raises(IntegrityError, match="not a"):
        load_tokenizer(tmp_path / "mixed")
    (tmp_path / "mixed" / tokenizer.FILE).unlink()
    with pytest.raises(IntegrityError, match="not a"):
        load_tokenizer(tmp_path / "mixed")


def test_missing_tokenizer_and_unknown_algorithm(tmp_path):
    """To pass over one without its vocabulary would be to say that there is none.

    One farther up may be taken.
    """
    with refused("this folder has no tokenizer"):
        load_tokenizer(tmp_path)
    (tmp_path / "name").write_text("byte_bpee\n")
    expected = r"name: expected the name of a tokenizer \(bpe, byte_bpe.*got 'byte_bpee'"
    with pytest.raises(IntegrityError, match=expected):
        load_tokenizer(tmp_path)
    with refused("no train_tokenizer/tokenizer above"):
        find_tokenizer(tmp_path / "deep" / "manifest.json", "abc")
    near = tmp_path / "run/train_tokenizer/tokenizer"
    far = tmp_path / "train_tokenizer/tokenizer"
    whole = trained("byte_bpe", far)
    shutil.copytree(far, near)
    (near / "vocabulary.json").unlink()
    missing = r"vocabulary\.json: this file of a tokenizer is missing; copy"
    with pytest.raises(IntegrityError, match=missing):
        find_tokenizer(tmp_path / "run/manifest.json", "abc")

    assert find_tokenizer(tmp_path / "run/manifest.json", whole.vocabulary.fingerprint) == far

    with refused(f"{far} has {whole.vocabulary.fingerprint}$"):
        find_tokenizer(tmp_path / "manifest.json", "abc")
