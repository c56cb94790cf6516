"""Spoil clean prose with known dirt: `clozeline spoil-corpus text=FILES output=DIR [foreign=FILES] [exact=0.2 ...]`.

The text is cut into documents of a page. Some are copied, exactly or nearly, some get the lines of a site or an
evaluation item, and documents in other languages, word salad and adverts are added. `documents/` holds the corpus as
lines of JSON with `text` and `url`, in an order that tells nothing. `truth.jsonl` says of each document, by file and
byte offset, what it is. `prose.jsonl` is clean text of documents that are not in the corpus; `good.jsonl` is more, for
a model of quality. `leaked.jsonl` and `unseen.jsonl` are evaluation items, with and without copies in the
corpus. `clozeline study configs/studies/data` measures what the steps of a pipeline are worth on it.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import numpy as np
from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.errors import ConfigurationError
from clozeline.files import publish_json, publish_text
from clozeline.seeding import hash64
from clozeline.tools.command import IntermixedArguments, plural, run_tool
from clozeline.tools.experiments.multirun.dirt import COPIES, MAKERS, SITES, SPOILING, Material
from clozeline.tools.runs.evaluation.local_texts import stored_texts
from clozeline.tools.settings import add_settings, settings_of

Share = Annotated[float, Field(ge=0, le=4)]
_FILES: Final = 4
_LEAKS_PER_ITEM: Final = 4
"""Documents that an item leaks into on average: fewer than what counts as a frequent phrase in decontamination."""
_FEWEST_WORDS: Final = 40


@config_class
class SpoilOptions:
    """Clean texts, and how many documents of each kind of dirt there are for each clean document."""

    text: Annotated[Path, HOME_EXPANDED]
    """clean prose: lines of JSON with `text`, plain texts, or a folder of them or of documents of a pipeline"""
    output: Annotated[Path, HOME_EXPANDED]
    """new folder"""
    foreign: Annotated[Path | None, HOME_EXPANDED] = None
    """texts in other languages, as `text`; without, there are no such documents"""
    words: Annotated[int, Field(ge=_FEWEST_WORDS)] = 250
    """words of a document; longer texts are cut between lines"""
    documents: Annotated[int, Field(ge=20)] | None = None
    """clean documents at most; default: all"""
    heldout: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """share of the clean documents that is kept out of the corpus"""
    items: Annotated[int, Field(ge=2)] = 200
    """evaluation items, of 50 words each, from documents that are not in the corpus; every second one is leaked"""
    good: int = 300
    """documents that are not in the corpus, good texts to train a model of quality"""
    exact: Share = 0.2
    """exact copies"""
    near: Share = 0.2
    """copies with 2 % of the words changed"""
    boilerplate: Share = 0.3
    """documents between the lines of their site"""
    language: Share = 0.15
    """documents in other languages"""
    salad: Share = 0.15
    """documents of words without order"""
    advert: Share = 0.15
    """adverts"""
    seed: int = 1
    """of all draws"""


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


def spoil(options: SpoilOptions) -> dict[str, int]:
    """Write a spoilt corpus; return the number of documents of each kind.

    Raises:
        ConfigurationError: if there are too few clean documents, or the output exists.
    """
    if options.output.exists():
        raise ConfigurationError(f"output: {options.output} exists; choose a new folder, or remove it")
    pieces = dict.fromkeys(_cut(stored_texts(options.text), options.words))  # without repeated ones
    order = sorted(pieces, key=lambda piece: hash64("spoil", options.seed, piece))[: options.documents]
    # the first documents are held out, the next give the items, then come good texts; the others are the corpus
    heldout = max(1, round(len(order) * options.heldout))
    first_good = heldout + options.items
    taken = first_good + options.good
    if len(order) < 2 * taken:
        raise ConfigurationError(
            f"text: expected at least {2 * taken} documents of {options.words} words for {options.items} items, "
            f"{options.good} good and {heldout} held-out documents, got {len(order)}; give more text, or fewer of them"
        )
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
    counts = Counter(entry.kind for entry in entries)
    facts = {name: str(value) for name, value in vars(options).items() if name not in ("text", "output", "foreign")}
    publish_json(options.output / "spoilt.json", {"documents": dict(counts), "options": facts})
    return dict(counts)


def _spoil_documents(clean: Sequence[str], options: SpoilOptions, material: Material) -> Iterator[_Entry]:
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


def _run(options: argparse.Namespace) -> None:
    chosen = settings_of(SpoilOptions, options.overrides)
    counts = spoil(chosen)
    told = ", ".join(f"{kind} {number:,}" for kind, number in sorted(counts.items()))
    sys.stdout.write(f"{chosen.output}: {plural(sum(counts.values()), 'document')}: {told}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = IntermixedArguments(__doc__)
    add_settings(parser, SpoilOptions)
    return run_tool(parser, arguments, _run)


if __name__ == "__main__":
    raise SystemExit(main())
