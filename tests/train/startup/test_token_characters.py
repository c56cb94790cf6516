"""The bytes of each token, for a family that reads characters."""

from pathlib import Path

from clozeline.pipeline.tokenize.tokenizers.word import Word
from clozeline.train.startup.open_run import token_bytes


def test_each_token_is_spelled(tmp_path: Path) -> None:
    tokenizer = Word.train(["the cat, the café"], Word.Options(size=400, min_frequency=1), tmp_path)
    found = token_bytes(tokenizer)
    assert len(found) == tokenizer.vocabulary.size
    words = [found[token] for token in tokenizer.encode(["the cat, café"])[0].ids.tolist()]
    assert words == [b"the", b" cat", b",", " café".encode()]
    assert found[tokenizer.vocabulary.specials["bos"]] == b"<s>"
