"""Parsers of wikitext on pages of known text: F1 of words, and milliseconds of a page.

    python -m benchmarks.wikitext [--pages 2000] [--texts FILE] [--json FILE]

The pages are made: paragraphs of plain prose (of FILE, by default of Python's documentation) get
links, marks, lists, references, tables, infoboxes, files and comments, in which no word of the
prose goes. In the second set numbers and words also stand in inline templates. What a page shows is
known word by word. It compares the reader `mediawiki` with what the two libraries give by
themselves, and with wikitextparser that shows templates by our table. The latter needs `pip install
wikitextparser`.
"""

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import Any

from benchmarks.harness import parser, print_table, system_load, write_json

import mwparserfromhell

from benchmarks.texts import natural_texts
from clozeline.pipeline.ingest.formats.wiki_templates import TemplateCall, find_template
from clozeline.pipeline.ingest.readers.mediawiki import strip_markup

SMALLEST = "--pages 10"
_PLAIN = re.compile(r"[A-Z][\w ,.()-]{60,900}\.")
_WORD = re.compile(r"\w+")
_AROUND = (
    "{{Infobox bridge\n| name = Xbox {{nowrap|xname}}\n| length = {{convert|40|m}}\n}}\n",
    "[[File:Xfile.jpg|thumb|xcaption]]\n",
    '{| class="wikitable"\n! xhead\n|-\n| xcell || xcell\n|}\n',
    "<!-- xcomment -->",
    "__NOTOC__\n",
    "{{Main|xarticle}}\n",
    "<gallery>\nXfile.jpg|xcaption\n</gallery>\n",
)
_BEHIND = (
    "\n{{Reflist}}\n[[Category:Xcategory]]\n[[Kategorie:Xcategory]]\n[[de:Xlink]]\n"
    "[[Bild:Xfile.jpg]]\n"
)
_INLINE = (
    ("{{{{convert|{a}|km|mi}}}}", "{a} km"),
    ("{{{{formatnum:{a}}}}}", "{a}"),
    ("{a}{{{{snd}}}}{b}", "{a} {b}"),
    ("{{{{lang|fr|mot{a}}}}}", "mot{a}"),
    ("{{{{nowrap|{a} men}}}}", "{a} men"),
    ("{{{{circa|{a}}}}}", "c {a}"),
    ("10<sup>{c}</sup>", "10 {c}"),
    ("{{{{frac|{c}|{a}}}}}", "{c} {a}"),
)


def make_page(
    paragraphs: Sequence[str], draw: random.Random, *, inline: bool
) -> tuple[str, Counter[str]]:
    """Return the wikitext of a page, and the words that it shows."""
    shown: Counter[str] = Counter()
    parts = []

    for paragraph in paragraphs:
        words = []

        for word in paragraph.split(" "):
            shown.update(_WORD.findall(word))
            chance = draw.random()
            forms = [
                f"[[{word}]]",
                f"[[Xtarget|{word}]]",
                f"''{word}''",
                f"'''{word}'''",
                f"[http://x.example {word}]",
            ]

            words.append(draw.choice(forms) if chance < 0.1 and word.isalpha() else word)

            if chance > 0.98:
                words[-1] += "<ref>{{cite book|title=Xbook}}, xpage</ref>"
            elif inline and chance > 0.94:
                numbers = {
                    "a": draw.randrange(100, 999),
                    "b": draw.randrange(100, 999),
                    "c": draw.randrange(2, 9),
                }
                form, text = draw.choice(_INLINE)
                words.append(form.format(**numbers))
                shown.update(_WORD.findall(text.format(**numbers)))

        parts.append(draw.choice(["", "", "* ", "# "]) + " ".join(words))
        if draw.random() < 0.3:
            parts.append(draw.choice(_AROUND).strip())

    return "\n\n".join(parts) + _BEHIND, shown


def read_paragraphs(texts: Sequence[str]) -> list[str]:
    """Return the paragraphs of plain prose, without a character that wikitext knows."""
    found = (" ".join(part.split()) for text in texts for part in text.split("\n\n"))
    return [paragraph for paragraph in found if _PLAIN.fullmatch(paragraph)]


def by_wikitextparser() -> dict[str, Callable[[str], str]]:
    """Return what wikitextparser makes of a page, alone and with our table of templates.

    Nothing without it.
    """
    try:
        import wikitextparser
    except ImportError:
        return {}

    def show(template: Any) -> str:
        function = find_template(str(template.name).strip().replace("_", " "))
        if function is None:
            return ""
        arguments = [
            wikitextparser.parse(argument.value).plain_text() for argument in template.arguments
        ]
        return function(TemplateCall([argument.strip() for argument in arguments]))

    return {
        "wikitextparser, plain_text": lambda page: str(wikitextparser.parse(page).plain_text()),
        "wikitextparser, our templates": lambda page: str(
            wikitextparser.parse(page).plain_text(replace_templates=show)
        ),
    }


def score(text: str, shown: Counter[str]) -> float:
    """Return the F1 of the words of a text."""
    words = Counter(_WORD.findall(text))
    return 2 * (words & shown).total() / max(1, words.total() + shown.total())


def main() -> int:
    """Print and write the figures."""
    options = parser(
        __doc__, pages=2000, texts=(Path, "file of texts; default: Python's documentation")
    ).parse_args()
    texts = [options.texts.read_text(encoding="utf-8")] if options.texts else natural_texts()
    paragraphs = read_paragraphs(texts)
    readers = {
        "mediawiki": strip_markup,
        "mwparserfromhell, strip_code": lambda page: str(mwparserfromhell.parse(page).strip_code()),
        **by_wikitextparser(),
    }

    rows = []

    for inline in (False, True):
        draw = random.Random(1)
        pages = [
            make_page(draw.choices(paragraphs, k=6), draw, inline=inline)
            for _ in range(options.pages)
        ]

        for name, read in readers.items():
            begin = process_time()
            read_pages = [read(markup) for markup, _ in pages]
            milliseconds = (process_time() - begin) * 1000 / len(pages)
            mean = sum(
                score(text, shown) for text, (_, shown) in zip(read_pages, pages, strict=True)
            ) / len(pages)
            case = "with inline templates" if inline else "without inline templates"
            rows.append((name, case, f"{mean:.4f}", f"{milliseconds:.2f}"))

    head = ("reader", "pages", "F1", "ms/page")
    print_table(head, rows, f"{options.pages} pages of each kind; {system_load()}")
    write_json(options.json, [dict(zip(head, row, strict=True)) for row in rows])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
