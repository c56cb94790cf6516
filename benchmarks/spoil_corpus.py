"""Spoil clean prose with known dirt, for a study of what each step of a pipeline removes.

    python -m benchmarks.spoil_corpus --text FILE --output DIR [--foreign FILE] [--documents 4000] [--exact 0.2 ...]

The text is cut into documents of a page. Some are copied, exactly or nearly, some get the lines of a site or an
evaluation item, and documents in other languages, word salad and adverts are added. `documents/` holds the corpus as
lines of JSON with `text` and `url`, in an order that tells nothing. `truth.jsonl` says of each document, by file and
byte offset, what it is. `prose.jsonl` and `good.jsonl` are clean texts that are not in the corpus, the latter for a
model of quality. `leaked.jsonl` and `unseen.jsonl` are evaluation items, with and without copies in the corpus.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.harness import parser, write_json

import numpy as np

from clozeline.files import publish_text
from clozeline.seeding import hash64
from clozeline.tools.runs.evaluation.local_texts import stored_texts

_FURNITURE: Final = (
    "Home | About {site} | Contact | Sitemap", "Skip to main content", "Subscribe to the {site} newsletter",
    "You are here: {site} > Archive > {word}", "Share this page on your favorite network",
    "Sign in or create an account to comment", "{site} uses cookies to improve your experience",
    "Related articles on {site}", "Print this page | Send by e-mail", "Back to top", "Previous entry | Next entry",
    "© {site}. All rights reserved.", "Terms of use | Privacy policy | Imprint",
)  # fmt: skip
_SLOGANS: Final = (
    "BUY NOW and save {percent}%!!!", "Limited offer: {word} {word} for only ${price}.99 ...",
    "Click here for the best {word} deals of the year!", "★ {word} ★ {word} ★ free shipping ★",
    "Cheap {word}, discount {word}, {word} online without a prescription", "Order {word} today >>> 24/7 support >>>",
    "Win a {word}! Enter the code {code} at checkout.", "Top {price} {word} stores near you | compare prices",
)  # fmt: skip
_GOODS: Final = (
    "watches", "pills", "handbags", "loans", "casino", "sneakers", "phones", "insurance", "perfume", "software",
    "mattress", "vitamins", "poker", "jewelry", "printers", "flights", "hotels", "tires", "cameras", "sunglasses",
)  # fmt: skip
SITES: Final = 24  # each has lines of its own on its spoilt pages
_LINES_PER_SITE: Final = 6
_CHANGED_WORDS: Final = 0.02  # share of a near copy; five-word shingles then overlap by about 0.8


@dataclass(frozen=True)
class Spoilt:
    """A document with dirt: its text, and the lines or items that were put into it."""

    text: str
    planted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Material:
    """Material of dirt: words of the clean corpus, texts in other languages, and evaluation items."""

    words: Sequence[str]
    foreign: Sequence[str]
    items: Sequence[str]

    def draw_words(self, draws: np.random.Generator, count: int) -> list[str]:
        return [self.words[index] for index in draws.integers(0, len(self.words), count)]


def copy_nearly(text: str, site: int, draws: np.random.Generator, material: Material) -> Spoilt:
    """Return the text with a few words dropped, repeated or replaced; paragraphs stay."""
    paragraphs = []
    for paragraph in text.split("\n"):
        words: list[str] = []
        for word in paragraph.split(" "):
            kind = draws.random() / _CHANGED_WORDS
            if not word or kind >= 1:
                words.append(word)
            elif kind >= 2 / 3:
                words += [word, word]
            elif kind >= 1 / 3:
                words += material.draw_words(draws, 1)
        paragraphs.append(" ".join(words))
    return Spoilt("\n".join(paragraphs))


def add_boilerplate(text: str, site: int, draws: np.random.Generator, material: Material) -> Spoilt:
    """Return the text between lines of its site: navigation above, notices below."""
    of_site = np.random.Generator(np.random.Philox(key=site))
    chosen = of_site.choice(len(_FURNITURE), _LINES_PER_SITE, replace=False)
    words = {"site": f"Site{site}", "word": _GOODS[site % len(_GOODS)].title()}
    lines = [_FURNITURE[index].format_map(words) for index in chosen]
    top = int(draws.integers(1, _LINES_PER_SITE))
    return Spoilt("\n".join([*lines[:top], text, *lines[top:]]), tuple(lines))


def write_salad(text: str, site: int, draws: np.random.Generator, material: Material) -> Spoilt:
    """Return words of the corpus without order: half of the documents in sentences, half as lists of rare words."""
    count = len(text.split())
    words = material.draw_words(draws, count)
    if draws.random() < 0.5:
        return Spoilt(", ".join(sorted(set(words), key=len, reverse=True)))
    ends = set(draws.integers(0, count, count // 12).tolist())
    return Spoilt(" ".join(f"{word.strip('.,;!?')}." if i in ends else word for i, word in enumerate(words)))


def write_advert(text: str, site: int, draws: np.random.Generator, material: Material) -> Spoilt:
    """Return slogans and prices, with repetitions."""
    lines = []
    for _ in range(int(draws.integers(8, 24))):
        slogan = _SLOGANS[int(draws.integers(len(_SLOGANS)))]
        while "{word}" in slogan:
            slogan = slogan.replace("{word}", _GOODS[int(draws.integers(len(_GOODS)))], 1)
        percent, price, code = (int(number) for number in draws.integers(5, 95, 3))
        lines.append(slogan.format(percent=percent, price=price, code=f"SAVE{code}"))
    return Spoilt("\n".join(lines))


def plant_item(text: str, site: int, draws: np.random.Generator, material: Material) -> Spoilt:
    """Return the text with an evaluation item between two of its paragraphs."""
    item = material.items[int(draws.integers(len(material.items)))]
    paragraphs = text.split("\n")
    paragraphs.insert(int(draws.integers(len(paragraphs) + 1)), item)
    return Spoilt("\n".join(paragraphs), (item,))


MAKERS: Final[Mapping[str, Callable[[str, int, np.random.Generator, Material], Spoilt]]] = {
    "exact": lambda text, *_: Spoilt(text),
    "near": copy_nearly,
    "boilerplate": add_boilerplate,
    "language": lambda _, __, draws, given: Spoilt(given.foreign[int(draws.integers(len(given.foreign)))]),
    "salad": write_salad,
    "advert": write_advert,
    "leak": plant_item,
}
"""Kinds of dirt; `exact` and `near` are added to the original, `boilerplate` and `leak` spoil it."""
SPOILING: Final = ("boilerplate", "leak")  # these take the position of a clean document
COPIES: Final = ("exact", "near")
_FILES: Final = 4
_LEAKS_PER_ITEM: Final = 4  # documents on average: fewer than what decontamination counts as a frequent phrase
_FEWEST_WORDS: Final = 40
# documents of each kind of dirt for each clean document
_SHARES: Final = {"exact": 0.2, "near": 0.2, "boilerplate": 0.3, "language": 0.15, "salad": 0.15, "advert": 0.15}


@dataclass(frozen=True)
class _Entry:
    text: str
    kind: str
    origin: int  # number of the clean document that it is or was made from
    planted: tuple[str, ...] = ()


def _cut(texts: Iterator[str], words: int) -> Iterator[str]:
    """Yield pieces of about `words` words, cut between lines; shorter ends are left out."""
    for text in texts:
        lines: list[str] = []
        count = 0
        for line in text.split("\n"):
            lines.append(line)
            count += len(line.split())
            if count >= words:
                yield "\n".join(lines).strip()
                lines, count = [], 0
        if count >= _FEWEST_WORDS:
            yield "\n".join(lines).strip()


def spoil(options: argparse.Namespace) -> dict[str, int]:
    """Write a spoilt corpus; return the number of documents of each kind."""
    pieces = dict.fromkeys(_cut(stored_texts(options.text), options.words))  # without repeated ones
    order = sorted(pieces, key=lambda piece: hash64("spoil", options.seed, piece))[: options.documents or None]
    # the first documents are held out, the next give the items, then come good texts; the others are the corpus
    heldout = max(1, round(len(order) * options.heldout))
    first_good = heldout + options.items
    taken = first_good + options.good
    if len(order) < 2 * taken:
        raise SystemExit(f"--text: expected at least {2 * taken} documents of {options.words} words, got {len(order)}")
    # an item ends like a sentence, so that no filter of lines takes it for a heading
    items = [f"{' '.join(piece.split()[:50]).rstrip('.,;:!?')}." for piece in order[heldout:first_good]]
    clean, leaked = order[taken:], items[::2]
    foreign = [] if options.foreign is None else list(_cut(stored_texts(options.foreign), options.words))
    material = Material([word for piece in clean[:2000] for word in piece.split()], foreign, leaked)
    entries = list(_spoil_documents(clean, options, material))
    entries.sort(key=lambda entry: hash64("order", options.seed, entry.kind, entry.origin, entry.text))
    _write_corpus(entries, options.output)
    prose = {"prose": order[:heldout], "good": order[first_good:taken]}
    for name, texts in {**prose, "leaked": leaked, "unseen": items[1::2]}.items():
        _write_lines(options.output / f"{name}.jsonl", [{"id": f"{name}-{i}", "text": t} for i, t in enumerate(texts)])
    return dict(Counter(entry.kind for entry in entries))


def _spoil_documents(clean: Sequence[str], options: argparse.Namespace, material: Material) -> Iterator[_Entry]:
    """Yield the clean documents and those with dirt."""
    shares = {kind: getattr(options, kind) for kind in MAKERS if kind != "leak"}
    shares["leak"] = _LEAKS_PER_ITEM * len(material.items) / len(clean)
    if not material.foreign:
        shares["language"] = 0
    for number, text in enumerate(clean):
        spoiled_by = ""
        for kind, share in shares.items():
            draws = np.random.Generator(np.random.Philox(key=hash64("dirt", options.seed, kind, number)))
            copies = int(share) + (draws.random() < share % 1)
            for _ in range(copies if not (kind in SPOILING and spoiled_by) else 0):
                site = number % SITES
                made = MAKERS[kind](text, site, draws, material)
                # copies share the origin of their document; other dirt has none
                yield _Entry(made.text, kind, number if kind in (*COPIES, *SPOILING) else -1, made.planted)
                spoiled_by = kind if kind in SPOILING else spoiled_by
        if not spoiled_by:
            yield _Entry(text, "clean", number)


def _write_corpus(entries: Sequence[_Entry], output: Path) -> None:
    """Write documents in several files, and the truth about each; the address tells nothing about the kind."""
    truth = []
    for file in range(_FILES):
        name, offset, lines = f"part-{file}.jsonl", 0, []
        for number in range(file, len(entries), _FILES):
            entry = entries[number]
            url = f"https://site{hash64('site', number) % SITES}.example/{number}"
            line = json.dumps({"text": entry.text, "url": url}, ensure_ascii=False) + "\n"
            fact = {"file": name, "offset": offset, "kind": entry.kind, "origin": entry.origin}
            truth.append(fact | ({"planted": list(entry.planted)} if entry.planted else {}))
            lines.append(line)
            offset += len(line.encode())
        publish_text(output / "documents" / name, "".join(lines))
    _write_lines(output / "truth.jsonl", truth)


def _write_lines(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    publish_text(path, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the corpus and print how many documents it has of each kind."""
    made = parser(__doc__, text=Path, output=Path, foreign=Path, words=(250, "words of a document"),
                  documents=(0, "clean documents at most; 0: all"), heldout=0.05, items=200, good=300, seed=1,
                  **_SHARES)  # fmt: skip
    options = made.parse_args(arguments)
    if options.text is None or options.output is None or options.output.exists():
        made.error("expected --text FILE and --output with a new folder")
    counts = spoil(options)
    print(f"{options.output}: {', '.join(f'{kind} {number:,}' for kind, number in sorted(counts.items()))}")
    write_json(options.json, counts)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
