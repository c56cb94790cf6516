"""Page numbers go, and numbers that are text stay."""

import pytest

from clozeline.pipeline.clean.filters import KEEP
from clozeline.pipeline.clean.filters.page_numbers import PageNumbers
from clozeline.tools.start.contracts.filters import judge_text

PAGE = "\n".join(f"line {number} of a page that goes on" for number in range(8))
STANZA = """The river is wide,
the river is slow,
the boats in the evening
come home in a row,
and over the bridge
the children go."""


def edit(text):
    return judge_text(PageNumbers(PageNumbers.Options()), text)


@pytest.mark.parametrize(
    "form",
    ["{}", "- {} -", "[{}]", "Page {}", "Page {} of 90", "\u2014 {} \u2014", "p. {}", "{} / 90"],
)
@pytest.mark.parametrize("gap", ["\n", "\n\n"])
def test_numbers_of_pages_go(form, gap):
    pages = [f"{PAGE}{gap}{form.format(number)}{gap}" for number in range(7, 13)]
    text = "".join(pages).strip()
    verdict = edit(text)
    assert verdict.text.split("\n") == PAGE.split("\n") * 6
    assert verdict.removed == {"page_numbers": len(text) - len(verdict.text)}


def test_roman_numbers_go_and_the_ends_of_chapters_stay():
    parts = [f"{PAGE}\n\n{number}\n\n" for number in ("viii", "ix", "x", "xi")]
    text = f"{''.join(parts)}{PAGE}\nIt ended there.\n\nxii\n\nAnother chapter begins on this page."

    assert (
        edit(text).text
        == "\n".join([PAGE] * 5) + "\nIt ended there.\n\nAnother chapter begins on this page."
    )


@pytest.mark.parametrize(
    "text",
    [
        "\n\n".join(f"{number}\n\n{STANZA}" for number in range(1, 9)),  # numbers of stanzas
        "\n\n".join(
            f"{number}\n\n{PAGE}." for number in ("I", "II", "III", "IV")
        ),  # numbers of chapters
        "\n".join(map(str, range(1, 60))),  # a column
        "\n".join(f"{number}\nan item of the list" for number in range(1, 20)),
        f"{PAGE}\n1984\n{PAGE}\n7\n{PAGE}\n42\n{PAGE}",  # they do not count up
        PAGE,
        "mix\n" + PAGE + "\ndid\n" + PAGE,
    ],
)
def test_other_numbers_stay(text):
    assert edit(text) == KEEP
