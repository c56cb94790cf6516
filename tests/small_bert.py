"""Make a small BERT as its publisher would release it: written by transformers only, untrained."""

import re
from collections import Counter
from pathlib import Path

_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ROWS = 128


def small_vocabulary(text: str, size: int) -> list[str]:
    """Return WordPiece pieces: specials, each character as word start and inside a word, then frequent words."""
    words = Counter(re.findall(r"[a-z]+|[0-9]+|[^\sa-z0-9]", text.lower()))
    characters = sorted({character for word in words for character in word})
    pieces = [*_SPECIALS, *characters, *(f"##{character}" for character in characters)]
    frequent = sorted(words, key=lambda word: (-words[word], word))
    return [*pieces, *(word for word in frequent if len(word) > 1)][:size]


def publish_small_bert(folder: Path) -> None:
    """Write config.json, model.safetensors and tokenizer files, identical on every call.

    The vocabulary comes from the texts in the standard library's `pydoc_data`.
    """
    from pydoc_data.topics import topics

    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    pieces = small_vocabulary("\n".join(topics.values()), 3000)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    transformers.BertTokenizer(vocab=str(folder / "vocab.txt"), do_lower_case=True).save_pretrained(folder)
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(pieces), hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512,
        max_position_embeddings=_ROWS, initializer_range=0.05,
    )  # fmt: skip
    transformers.BertForMaskedLM(config).save_pretrained(folder)
