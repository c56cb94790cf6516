"""Project Gutenberg's frame goes, and the book stays to the letter."""

import pytest

from clozeline.pipeline.clean.filters import KEEP
from clozeline.pipeline.clean.filters.gutenberg import Gutenberg
from clozeline.tools.start.contracts.filters import judge_text

CASES = {
    "gutenberg_frame_alone": "A header.\n*** START OF THE PROJECT GUTENBERG EBOOK X ***\n\n"
    "*** END OF THE PROJECT GUTENBERG EBOOK X ***\nA license.",
}
BOOK = (
    "CHAPTER I\n\nEmma Woodhouse, handsome, clever, and rich.\n\nThe end of it *** was "
    "near.\n\nFINIS"
)
LICENSE = (
    "START: FULL LICENSE\n\nTHE FULL PROJECT GUTENBERG LICENSE\nPLEASE READ THIS BEFORE YOU "
    "DISTRIBUTE."
)


def edit(text):
    return judge_text(Gutenberg(Gutenberg.Options()), text)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (
            "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***",
            "*** END OF THE PROJECT GUTENBERG EBOOK EMMA ***",
        ),
        (
            "*** START OF THIS PROJECT GUTENBERG EBOOK EMMA ***",
            "*** END OF THIS PROJECT GUTENBERG EBOOK EMMA ***",
        ),
        (
            "***START OF THE PROJECT GUTENBERG EBOOK EMMA***",
            "***END OF THE PROJECT GUTENBERG EBOOK EMMA***",
        ),
        (
            "*** START OF THE PROJECT GUTENBERG EBOOK A LONG\nTITLE OF TWO LINES ***",
            "*** END OF THE PROJECT GUTENBERG EBOOK",
        ),
        (
            "*END*THE SMALL PRINT! FOR PUBLIC DOMAIN ETEXTS*Ver.04.29.93*END*",
            "End of Project Gutenberg's Emma",
        ),
        (
            "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***\n\nProduced by A. Reader\nand B. "
            "Reader",
            "End of the Project Gutenberg EBook of Emma\n\n*** END OF THE PROJECT GUTENBERG EBOOK "
            "EMMA ***",
        ),
        (
            "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***\n\nE-text prepared by A. "
            "Reader\n\nCredits: B. Reader",
            "",
        ),
        ("", "*** END OF THE PROJECT GUTENBERG EBOOK EMMA ***"),
    ],
)
def test_the_frame_goes(start, end):
    header = f"The Project Gutenberg eBook of Emma\n\nTitle: Emma\n\n{start}" if start else ""
    text = f"{header}\n\n{BOOK}\n\n{end}{end and chr(10) + LICENSE}".strip()
    verdict = edit(text)
    assert verdict.text == BOOK
    assert verdict.removed == {"frame": len(text) - len(BOOK)}


@pytest.mark.parametrize(
    "text",
    [
        BOOK,
        "I read a book of Project Gutenberg.\n*** It was good. ***",
        "Produced by hand.\n\nA chair.",
    ],
)
def test_other_texts_stay(text):
    assert edit(text) == KEEP


def test_small_print_at_the_end_is_no_start():
    """Of some books it was moved there: all before it is the book."""
    small_print = (
        "This header should be the first thing seen.\n\n*END*THE SMALL PRINT! FOR PUBLIC DOMAIN "
        "ETEXTS*END*"
    )
    text = f"{BOOK * 9}\n\n{small_print}"

    assert edit(text) == KEEP


def test_parts_of_a_work_have_last_words_too():
    part = "End of the Project Gutenberg Etext of Part One"
    works = (
        f"{BOOK}\n\n{part}\n\nTHE COMPLETE PROJECT GUTENBERG WORKS\n\n"
        + "Part two goes on and on.\n" * 99
    )
    frame = "*** {} OF THE PROJECT GUTENBERG EBOOK WORKS ***"
    text = f"{frame.format('START')}\n\n{works}\n{frame.format('END')}"

    assert edit(text).text == works.strip()


def test_a_note_about_pictures_goes_with_the_credits():
    note = (
        "Note: Project Gutenberg also has an HTML version of this\nfile which includes the "
        "original illustrations."
    )
    text = (
        "*** START OF THE PROJECT GUTENBERG EBOOK EMMA ***\n\nProduced by A. "
        f"Reader\n\n{note}\n\n{BOOK}"
    )

    assert edit(text).text == BOOK


def test_several_books_stay_together():
    frame = (
        "*** START OF THE PROJECT GUTENBERG EBOOK {0} ***\n\n{1}\n\n*** END OF THE PROJECT "
        "GUTENBERG EBOOK {0} ***"
    )
    found = edit(
        "\n\n".join(
            [
                frame.format("ONE", "First book."),
                frame.format("TWO", BOOK),
                LICENSE,
            ]
        )
    ).text

    assert found.startswith("First book.")
    assert found.endswith("FINIS")

    backwards = (
        "*** END OF THE PROJECT GUTENBERG EBOOK ***\n\n*** START OF THE PROJECT GUTENBERG EBOOK "
        "***\n\nA text."
    )

    assert edit(backwards).text == "A text."
