"""Both drawers show every text of a tree of views as text, and tell the roles apart."""

import io
import re
import shutil
import subprocess
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import Color
from rich.console import Console

from clozeline.report import html_page, terminal_view
from clozeline.report.html_page import fragment, page
from clozeline.report.terminal_view import print_view, view_text
from clozeline.report.views import (
    Bars,
    Chart,
    Grid,
    Part,
    Passage,
    Section,
    Series,
    Span,
    Table,
)
from tests.pages import HOSTILE, checked

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
ROLES = [*terminal_view._STYLES.styles.keys() & {*re.findall(r"\.(\w+)", html_page._PARTS_STYLE)}]
WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=8)
TEXTS = WORDS | st.sampled_from([HOSTILE, "</span><b>", "\x1b[31m", "[red]\u202e[/red]", "'"])


def trees(texts):
    """Sections of all kinds of parts, each with texts wherever it has one."""
    spans = st.builds(Span, texts, st.sampled_from(["", *ROLES]), texts)
    line = st.tuples(texts, st.lists(spans, min_size=2, max_size=2))
    rows = st.lists(st.tuples(texts, spans), min_size=1, max_size=3)
    series = st.builds(lambda name: Series(name, [(1, 2.0), (3, 4.0)]), texts)
    parts = st.one_of(
        texts,
        st.builds(Passage, texts, st.tuples(spans, spans), texts),
        st.builds(Table, texts, st.tuples(texts, texts) | st.just(()), rows),
        st.builds(Grid, st.lists(st.tuples(line, line), min_size=1, max_size=2)),
        st.builds(Chart, texts, st.tuples(series), texts, st.dictionaries(texts, st.just(3.0))),
        st.builds(Bars, texts, st.dictionaries(texts, st.just(3), min_size=1, max_size=20)),
    )
    return st.recursive(
        st.builds(Section, texts, st.lists(parts, min_size=1, max_size=3)),
        lambda inner: st.builds(
            Section, texts, st.lists(inner | parts, min_size=1), st.booleans(), st.booleans()
        ),
        max_leaves=4,
    )


def texts_of(value, unseen=("x_name", "role", "remark", "_seen")):
    """Every text of a tree, but axis names, roles and remarks, which terminals do not show."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Span):
        yield value.text
    elif isinstance(value, dict):
        yield from value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts_of(each)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__.keys() - {*unseen}:
            yield from texts_of(getattr(value, name))


@settings(max_examples=60, deadline=None)
@given(trees(WORDS))
def test_page_and_terminal_show_every_text(view):
    file = io.StringIO()
    print_view(view, Console(file=file, width=1000))
    embedding = page(Section("", ["here"]))
    shown = {
        "page": "".join(checked(page(view)).texts),
        "terminal": file.getvalue(),
        "fragment": "".join(checked(embedding.replace("<p>here</p>", fragment(view))).texts),
    }
    missing = [
        (drawer, text)
        for drawer, drawn in shown.items()
        for text in texts_of(view)
        if text not in drawn
    ]
    assert not missing


@settings(max_examples=60, deadline=None)
@given(trees(TEXTS))
def test_no_text_is_markup_or_controls_a_terminal(view):
    tags = {tag for tag, _ in checked(page(view)).tags}
    assert not tags & {"script", "img", "a"}
    assert "b" not in tags or "figcaption" in tags, "only captions are bold"
    assert not {"\x1b", "\u202e", "\x00", "\ud800"} & {*page(view), *view_text(view)}


@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
def test_a_browser_runs_no_script_of_a_text(tmp_path):
    texts = [
        "<script>document.title = 'ran'</script>",
        "<img src=x onerror=\"document.title = 'ran'\">",
        "' onmouseover='x' \" onfocus=\"document.title = 'ran'\" autofocus tabindex=0 x=\"",
    ]
    span = Span(" ".join(texts), "masked", " ".join(texts))
    (tmp_path / "page.html").write_text(
        page(
            Section(
                "quiet",
                [
                    Passage(span.text, (span,), span.text),
                    Table(span.text, (span.text,), [(span,), (span.text,)]),
                    Grid([[(span.text, [span])]]),
                    Bars(span.text, {span.text: 1}),
                    Chart(span.text, [Series(span.text, [(1, 2.0)])], span.text, {span.text: 1.0}),
                    Section(span.text, [span.text], is_folded=True),
                ],
            )
        )
    )
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'u'}"]
    command = [BROWSER, *options, "--dump-dom", f"file://{tmp_path / 'page.html'}"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "<title>quiet</title>" in shown
    assert shown.count("&lt;script&gt;") >= 12


def test_every_kind_of_part_is_drawn():
    drawn = {Passage, Table, Grid, Chart, Bars, Section, str}
    assert {*get_args(Part)} == drawn
    assert ROLES


def luminance(color):
    channels = [value / 255 for value in color.get_truecolor()]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(Color.parse(one)), luminance(Color.parse(other))))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("role", ["masked", "replaced", "unchanged", "sentinel", "predicted"])
def test_marked_tokens_can_be_read(role):
    """WCAG 2.1 asks for 4.5:1; both drawers have the same colors."""
    style = terminal_view._STYLES.styles[role]
    assert contrast(style.color.name, style.bgcolor.name) >= 4.5
    rules = re.findall(rf"\.{role}\b[^{{]*\{{([^}}]*)\}}", html_page._PARTS_STYLE)
    ink = re.findall(r"(?:^|;)color:(#\w+)", ";".join(rules))[-1]
    assert f"background:{style.bgcolor.name}" in ";".join(rules)
    assert contrast("#" + "".join(2 * digit for digit in ink[1:]), style.bgcolor.name) >= 4.5


def test_what_is_empty_leaves_nothing():
    empty = [Table("t", ("a",), []), Bars("b", {"none": 0}), Chart("c", [], "x"), Section("s", [])]
    view = Section("title", [Section("inner", empty)])
    assert checked(page(view)).texts == ["title", "title"]
    assert view_text(view).split()[1:2] == ["title"]
