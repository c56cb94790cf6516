"""tiktoken files against tiktoken itself, and against the converter of transformers."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import patch

import pytest
import tiktoken
import tiktoken_ext.openai_public
from transformers.convert_slow_tokenizer import TikTokenConverter

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.tokenize.published.importing import guesses, import_tokenizer
from clozeline.pipeline.tokenize.published.rank_files import PATTERNS, SPECIAL_TOKENS, is_rank_file, read_ranks
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces
from clozeline.pipeline.tokenize.tokenizers.byte_bpe import ByteBpe
from tests.pipeline.tokenize.published.published_files import NASTY

TEXTS = [
    *NASTY,
    "It's 12345 degrees, isn't IT'S?\r\n\r\n  and/or  CamelCaseWords éÉ e\u0301\u0301 ½ 中文字 \u2028x",
    "newest lowest widest \t\n 1,000,000.00 !!! ?? don't DON'T",
    "x" * 300 + " " * 300 + "\n" * 40,
]


def ranks_of(folder: Path) -> dict[bytes, int]:
    """Ranks of a small byte-level BPE, and three tokens that merging cannot reach, one of them empty."""
    draw = random.Random(4)
    letters = "elstdvmr''.,12A_é中½ \n"
    texts = ["".join(draw.choices(letters, k=400)) for _ in range(40)] + ["newest lowest widest don't can't"] * 30
    ByteBpe.train(texts, ByteBpe.Options(size=700, reserved=0), folder)
    facts = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    alphabet = {letter: byte for byte, letter in zip(range(256), _letters(), strict=True)}
    names = sorted(facts["model"]["vocab"].keys() - set(special_pieces(0)), key=facts["model"]["vocab"].__getitem__)
    ranks = {bytes(alphabet[letter] for letter in name): rank for rank, name in enumerate(names)}
    return {**ranks, b" QXZ": len(ranks), b"ZZQ": len(ranks) + 1, b"": len(ranks) + 2}


def _letters() -> list[str]:
    """GPT-2's table of bytes, from its description: printable bytes stay, the others follow from 256 on."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def write(path: Path, ranks: Mapping[bytes, int]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [(base64.b64encode(token) or b"=") + b" " + str(rank).encode() for token, rank in ranks.items()]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> dict[bytes, int]:
    return ranks_of(tmp_path_factory.mktemp("ranks"))


def published_pattern(name: str) -> str:
    """The pattern that tiktoken ships under a name, without the ranks, which it would download."""
    ours = "tiktoken_ext.openai_public"
    with (
        patch(f"{ours}.load_tiktoken_bpe", return_value={}),
        patch(f"{ours}.data_gym_to_mergeable_bpe_ranks", return_value={}),
    ):
        facts = getattr(tiktoken_ext.openai_public, name)()
    return str(facts["pat_str"])


def assert_same_ids(tokenizer: Tokenizer, peer: tiktoken.Encoding) -> None:
    for text in [*TEXTS, "QXZ QXZ ZZQ ZZQZZQ a QXZ", *" ".join(TEXTS).split()]:
        ids = tokenizer.encode([text])[0].ids.tolist()
        assert ids == peer.encode(text, disallowed_special=()), text
        assert tokenizer.decode(ids) == text


@pytest.mark.parametrize(("pattern", "peer"), [("cl100k", "cl100k_base"), ("o200k", "o200k_base")])
def test_ids_are_those_of_tiktoken(ranks: dict[bytes, int], tmp_path: Path, pattern: str, peer: str) -> None:
    """With the patterns that tiktoken itself ships, however they are written."""
    path = write(tmp_path / "x.tiktoken", ranks)
    tokenizer = import_tokenizer(path, tmp_path / "ours", pattern=pattern)
    tokens = {token: rank for token, rank in ranks.items() if token}
    shipped = tiktoken.Encoding("peer", pat_str=published_pattern(peer), mergeable_ranks=tokens, special_tokens={})
    assert_same_ids(tokenizer, shipped)


def test_the_pattern_of_gpt2_and_an_own_one(ranks: dict[bytes, int], tmp_path: Path) -> None:
    path, own = write(tmp_path / "x.tiktoken", ranks), r"\s*\S+|\s+"
    tokens = {token: rank for token, rank in ranks.items() if token}
    for name, expression in (("gpt2", published_pattern("gpt2")), (own, own)):
        peer = tiktoken.Encoding("peer", pat_str=expression, mergeable_ranks=tokens, special_tokens={})
        assert_same_ids(import_tokenizer(path, tmp_path / name[:4].strip("\\"), pattern=name), peer)


def test_a_model_file_of_llama_3(ranks: dict[bytes, int], tmp_path: Path) -> None:
    """The pattern comes from the model's type; transformers' converter gives the same ids."""
    path = write(tmp_path / "llama" / "tokenizer.model", ranks)
    (path.parent / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    tokenizer = import_tokenizer(path.parent, tmp_path / "ours", special_tokens="llama3")
    first = len(ranks)
    names = tokenizer.vocabulary
    assert names.specials["bos"] == first
    assert names.specials["eos"] == first + 1
    assert tokenizer.piece(first + 9) == "<|eot_id|>"
    assert names.size == first + 256
    peer = TikTokenConverter(vocab_file=str(path), pattern=PATTERNS["cl100k"]).converted()
    for text in TEXTS:
        assert tokenizer.encode([text])[0].ids.tolist() == peer.encode(text).ids
    # the name of a special token in a text is text
    assert first not in tokenizer.encode(["<|begin_of_text|>"])[0].ids.tolist()


def test_qwen_reads_composed_letters(ranks: dict[bytes, int], tmp_path: Path) -> None:
    path = write(tmp_path / "qwen.tiktoken", ranks)
    tokenizer = import_tokenizer(path, tmp_path / "ours", pattern="qwen", special_tokens="qwen")
    composed, decomposed = tokenizer.encode(["caf\u00e9 12", "cafe\u0301 12"])
    assert composed.ids.tolist() == decomposed.ids.tolist()
    assert tokenizer.piece(len(ranks)) == "<|endoftext|>"
    assert len(SPECIAL_TOKENS["qwen"]) == 208


def test_special_tokens_of_the_folder(ranks: dict[bytes, int], tmp_path: Path) -> None:
    folder, first = tmp_path / "model", len(ranks)
    write(folder / "tokenizer.model", ranks)
    added = {str(first): {"content": "<s>"}, str(first + 3): {"content": "</s>"}}  # two ids between them
    facts = {"added_tokens_decoder": added, "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts), encoding="utf-8")
    tokenizer = import_tokenizer(folder, tmp_path / "ours", pattern="cl100k")
    assert tokenizer.vocabulary.specials | {"bos": first, "eos": first + 3} == tokenizer.vocabulary.specials
    assert tokenizer.piece(first + 1) == f"<|unused_{first + 1}|>"


def test_a_tokenizer_json_wins_and_differences_are_told(ranks: dict[bytes, int], tmp_path: Path) -> None:
    folder = tmp_path / "model"
    path = write(folder / "tokenizer.model", ranks)
    import_tokenizer(path, tmp_path / "converted", pattern="cl100k")
    facts = json.loads((tmp_path / "converted" / "tokenizer.json").read_text(encoding="utf-8"))
    (folder / "tokenizer.json").write_text(json.dumps(facts), encoding="utf-8")
    assert not [line for line in guesses(folder, tmp_path / "converted") if "ids differ" in line]
    first, second = list(ranks)[300:302]
    write(path, {**ranks, first: ranks[second], second: ranks[first]})
    assert [line for line in guesses(folder, tmp_path / "converted") if "2 of its ids differ" in line]


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"YQ== 0\nbroken\n", IntegrityError, "line 2: expected base64, a space and a rank"),
        (b"YQ== 0\nYQ== 1\n", IntegrityError, "line 2: the token b'a' occurs twice"),
        (b"YQ== 0\nYg== 0\n", IntegrityError, "a rank for each token, some occur twice"),
        (b"YQ== 0\n", ConfigurationError, "expected all 256 bytes as tokens, 0 is missing"),
    ],
)
def test_damaged_files(tmp_path: Path, content: bytes, error: type[Exception], message: str) -> None:
    path = tmp_path / "x.tiktoken"
    path.write_bytes(content)
    assert is_rank_file(path)
    with pytest.raises(error, match=message):
        read_ranks(path)


def test_what_a_file_does_not_say_must_be_named(ranks: dict[bytes, int], tmp_path: Path) -> None:
    path = write(tmp_path / "x.tiktoken", ranks)
    with pytest.raises(ConfigurationError, match=r"tokenizer\.pattern=gpt2\|cl100k\|qwen\|o200k"):
        import_tokenizer(path, tmp_path / "a")
    with pytest.raises(ConfigurationError, match=r"the name of one: llama3, llama3\.1, qwen, gpt2; got 'bert'"):
        import_tokenizer(path, tmp_path / "b", pattern="gpt2", special_tokens="bert")
    (tmp_path / "vocab.txt").write_text("[UNK]\na\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"tokenizer\.pattern: is for tiktoken files"):
        import_tokenizer(tmp_path / "vocab.txt", tmp_path / "c", pattern="gpt2")
    assert not is_rank_file(tmp_path / "vocab.txt")
