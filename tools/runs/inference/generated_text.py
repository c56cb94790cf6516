"""Say which texts a model may generate, and where a text ends, for commands of extensions."""

from collections.abc import Sequence
from pathlib import Path

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tables import read_list
from clozeline.pipeline.text.normal_form import NormalForm, normalize_field
from clozeline.pipeline.tokenize.published.folders import end_ids
from clozeline.pipeline.tokenize.tokenizers import Tokenizer


def find_end_ids(tokenizer: Tokenizer) -> set[int]:
    """Return the ids that end a text.

    They come from the publisher's generation_config.json; by default, the end token.
    """
    vocabulary = tokenizer.vocabulary
    return end_ids(
        vocabulary.folder, [number for name, number in vocabulary.specials.items() if name == "eos"]
    )


def text_before(stop: Sequence[str], text: str) -> str:
    """Return a generated text, cut before the first stop string."""
    return text[: min((text.find(each) for each in stop if each in text), default=len(text))]


def read_allowed(allowed: Sequence[str] | Path, form: NormalForm = "prose") -> list[str]:
    """Return the allowed texts in a stored form, from a list or from a file with one per line.

    Raises:
        ConfigurationError: the file has no line, or a line cannot be read.
    """
    if not isinstance(allowed, Path):
        # inside of a word, the stored form has no zero-width space
        edges = "\u200b" if form in ("prose", "sequence") else ""
        texts = [normalize_field(form, text).strip(edges) for text in allowed]
        if "" in texts:
            raise ConfigurationError(
                f"{allowed[texts.index('')]!r}: normalize={form} leaves nothing of this text: "
                "remove it, or set normalize=none"
            )
        return texts
    if not allowed.is_file():
        raise ConfigurationError(
            f"{allowed}: no such file; give one with a text per line, or a list: [a, b]"
        )
    texts = read_list(allowed, form)
    if not texts:
        raise ConfigurationError(f"{allowed}: expected a text per line, got none")
    return list(dict.fromkeys(texts))
