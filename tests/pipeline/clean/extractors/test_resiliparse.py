import pytest

from clozeline.pipeline.clean.extractors.resiliparse import Resiliparse

PAGE = "<nav><a href=/x>Home</a></nav><h1>Title</h1><p>One <b>two</b>.</p>"


def test_the_worked_example():
    assert Resiliparse(Resiliparse.Options()).extract("<nav>Home</nav><h1>Title</h1><p>One <b>two</b>.</p>") == (
        "Title\n\nOne two."
    )


def test_all_text_without_links_and_images():
    found = Resiliparse(Resiliparse.Options(main_content=False)).extract(PAGE + "<img alt=picture src=x>")
    assert "Home" in found
    assert "/x" not in found
    assert "picture" not in found


MENU = (
    "<ul>" + "<li><a href=/x>One of many entries of a menu that leads to all the other pages of the site</a></li>" * 20
)
ARTICLE = "".join(
    f"<p>Paragraph {n} tells what happened on that day, where it was, and who has seen it.</p>" for n in range(9)
)


@pytest.mark.parametrize(
    ("page", "found"),
    [
        (f"<body><noscript><div></noscript><div>{ARTICLE}</div>", True),
        (f"<body><div class='sidebar comments'>{MENU}</ul>{ARTICLE}</div>", True),
        (f"<body><div class='sidebar comments'>{MENU}</ul></div>", False),
        (f"<body><div class='sidebar comments'>{MENU}</ul><p>Paragraph 1 tells what happened.</div>", False),
    ],
)
def test_a_second_try_finds_the_article(page, found):
    extractor = Resiliparse(Resiliparse.Options())
    assert extractor.extract(page) == ""
    text = extractor.extract_leniently(page)
    assert [f"Paragraph {n} tells" in text for n in range(9)] == [found] * 9
    assert "menu" not in text
