"""Speed of language identification beside the package alone.

    python -m benchmarks.languages [--text FILE] [--repeats 3] [--json FILE]

FILE has JSON lines with a `text`; without it, texts that come with Python. Both are cut into
documents of 2,300 characters. The package reads the same 2,000 characters of a document as
Clozeline does. Seconds are CPU time of one process, the fastest pass, in turns.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import Claim, finish, parser, system_load, take_turns

from benchmarks.texts import natural_texts
from clozeline.pipeline.clean.languages import remove_noise, sample_text
from clozeline.pipeline.registries import LANGUAGES

_CHARACTERS: Final = 2300
_MOST_DOCUMENTS: Final = 1000
_FASTER: Final = 5.0
"""What the compiled loop must gain over the package, noise of a busy machine included."""


def cut_documents(texts: Sequence[str]) -> list[str]:
    """Return documents of one size from texts, at most a thousand, evenly spaced."""
    whole = "\n\n".join(texts)
    starts = range(0, len(whole) - _CHARACTERS, _CHARACTERS)
    step = max(1, len(starts) // _MOST_DOCUMENTS)
    return [whole[start : start + _CHARACTERS] for start in starts[::step]]


def build_library() -> Callable[[str], Any]:
    """Return the package's own call."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    model = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    return lambda text: model.rank(remove_noise(sample_text(text)))[0]


def main() -> int:
    """Print and write the figures; return 1 if one misses its target."""
    options = parser(
        __doc__, text=(Path, "JSON lines with a `text`, instead of texts of Python"), repeats=3
    ).parse_args()

    texts = natural_texts()
    if options.text is not None:
        lines = options.text.read_text(encoding="utf-8").splitlines()
        texts = [json.loads(line)["text"] for line in lines]
    documents = cut_documents(texts)

    identify = LANGUAGES.resolve("py3langid").build().identify
    works = {
        name: lambda call=call: [call(document) for document in documents]
        for name, call in {"ours": identify, "package": build_library()}.items()
    }
    milliseconds = {
        name: min(passes) / len(documents) * 1e3
        for name, passes in take_turns(works, options.repeats).items()
    }

    print(f"{len(documents)} documents of {_CHARACTERS} characters, {system_load()}")
    speed = Claim(
        "py3langid",
        "ms a document",
        milliseconds["ours"],
        milliseconds["package"],
        "package",
        _FASTER,
    )
    return finish([speed], options.json)


if __name__ == "__main__":
    raise SystemExit(main())
