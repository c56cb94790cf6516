"""Project Gutenberg's frame goes, and the book stays to the letter."""

import pytest

from clozeline.pipeline.clean.filters import KEEP
from clozeline.pipeline.clean.filters.gutenberg import Gutenberg
from clozeline.tools.start.contracts.filters import judge_text

CASES = {
    "gutenberg_frame_alone": "A header.\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\n\n"
    "*** END OF THE PROJECT GUTENBERG EBOOK X ***\nA license.",
}
BOOK = "CHAPTER I\n\nEmma Woodhouse, handsome, clever, and rich.\n\nThe end of it *** was near.\n\nFINIS"
LICENSE = "START: FULL LICENSE\n\nTHE FULL PROJECT GUTENBERG LICENSE\nPLEASE READ THIS BEFORE YOU DISTRIBUTE."


def edit(text):
    return judge_text(Gutenberg(Gutenberg.Options()), text)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***", "*** END OF THE PROJECT GUTENBERG EBOOK EMMA ***"),
        ("*** START OF THIS PROJECT GUTENBERG EBOOK EMMA ***", "*** END OF THIS PROJECT GUTENBERG EBOOK EMMA ***"),
        ("***START OF THE PROJECT GUTENBERG EBOOK EMMA***", "***END OF THE PROJECT GUTENBERG EBOOK EMMA***"),
        ("*** START OF THE PROJECT GUTENBERG EBOOK A LONG\nTITLE OF TWO LINES ***",
         "*** END OF THE PROJECT GUTENBERG EBOOK"),
        ("*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*", "End of Project Gutenberg's Emma"),
        ("*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***\n\nProduced by A. Reader\nand B. Reader",
         "End of the Project Gutenberg EBook of Emma\n\n*** END OF THE PROJECT GUTENBERG EBOOK EMMA ***"),
        ("*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***\n\nE-text prepared by A. Reader\n\nCredits: B. Reader", ""),
        ("", "*** END OF THE PROJECT GUTENBERG EBOOK EMMA ***"),
    ],
)  # fmt: skip
def test_the_frame_goes(start, end):
    header = f"The Project Gutenberg eBook of Emma\n\nTitle: Emma\n\n{start}" if start else ""
    text = f"{header}\n\n{BOOK}\n\n{end}{end and chr(10) + LICENSE}".strip()
    verdict = edit(text)
    assert verdict.text == BOOK
    assert verdict.removed == {"frame": len(text) - len(BOOK)}


@pytest.mark.parametrize(
    "text", [BOOK, "I read a book of Project Gutenberg.\n*** It was good. ***", "Produced by hand.\n\nA chair."]
)
def test_other_texts_stay(text):
    assert edit(text) == KEEP


def test_several_books_stay_together():
    frame = "*** START OF THE PROJECT GUTENBERG EBOOK {0} ***\n\n{1}\n\n*** END OF THE PROJECT GUTENBERG EBOOK {0} ***"
    found = edit("\n\n".join([frame.format("ONE", "First book."), frame.format("TWO", BOOK), LICENSE])).text
    assert found.startswith("First book.")
    assert found.endswith("FINIS")
    backwards = "*** END OF THE PROJECT GUTENBERG EBOOK ***\n\n*** START OF THE PROJECT GUTENBERG EBOOK ***\n\nA text."
    assert edit(backwards).text == "A text."
