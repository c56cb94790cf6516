"""Time grows linearly with hostile texts, in every filter, splitter, function of texts and reader.

Ratios of CPU time, never limits: ten times the text may take 25 times as long; a quadratic function
takes 100 times.
"""

import time
from functools import cache, partial

import pytest

from clozeline.pipeline.clean.filters import KEEP
from clozeline.pipeline.dedup.exact import normalize_url
from clozeline.pipeline.dedup.near import MinHash
from clozeline.pipeline.dedup.repeats import LinePieces
from clozeline.pipeline.ingest.readers.mediawiki import strip_markup
from clozeline.pipeline.kernels.ngram_index import Matcher, build_index
from clozeline.pipeline.registries import FILTERS, READERS, SENTENCES
from clozeline.pipeline.text.hosts import ascii_host, ascii_url, extract_host
from clozeline.pipeline.text.normal_form import match_words, normalize
from clozeline.pipeline.text.word_tokens import word_tokens
from clozeline.tools.start.contracts.filters import judge_text
from tests.pipeline.captures import http, read, record

PIECES = """
    1. 1: a. a- a' a@ @a. a@b. U.S. 1,000, +1( ::1: DE89 http://a. www.a/?b=& &amp; &#x26 %41% “” {{a| }} [[a| ]] '''
    -{a; <b> </b> <!-- <a/b= __TOC__ \\u0000 \\ud800 [{ {"a": "a":1, ", <p><table> <script>
"""
REPEATED = [
    *".,-'\"_@:;!?/\\|#*=~^%&<>[](){}$0aA "
    "\n\t\0\xe9漢กא\u0301\u093f\u200d\u200b\u202e\xad\u2028\ufffd",
    *PIECES.split(),
    *(
        "A.B. ",
        "12-34 ",
        "8.8.8.8 ",
        "GB82 WEST 1234 ",
        "...\n",
        "\r\n",
        " \n",
        "a\n",
        "- a\n",
        "== a\n",
        "{|\n",
    ),
    *(
        "<a b=c>",
        "<a b='",
        "a=a ",
        "a: b\r\n",
        " a\r\n",
        "WARC/1.0\r\n\r\n",
        "1\r\na\r\n",
        "lorem ipsum ",
    ),
]
"""A piece for each kind of string that `strings` repeats."""


@cache
def strings(size):
    """Return strings of `size` characters by their rules."""
    repeated = {
        f"repeated {piece!r}": (piece * (size // len(piece) + 1))[:size] for piece in REPEATED
    }
    half = size // 2
    counted = "".join(f"w{number} " for number in range(size // 6))[:size]
    mixed = {
        "different words": counted,
        "different lines": counted.replace(" ", "\n"),
        "hyphen chain": counted.replace(" ", "-"),
        "one long word": "ab" * half,
        "opened, then closed": "(" * half + ")" * half,
        "blanks, then a letter": " " * (size - 1) + "a",
        "a letter, then marks": "a" + "\u0301" * (size - 1),
    }

    return repeated | mixed


def functions(folder):
    """Return all filters, splitters and functions of texts by their names."""
    (folder / "en").write_text("forbidden\nworse word\n", encoding="utf-8")
    (folder / "list.txt").write_text("example.org\n", encoding="utf-8")
    options = {
        "bad_words": {"lists": str(folder)},
        "pii": {"phone": True},
        "url": {
            name: [str(folder / "list.txt")]
            for name in ("domains", "urls", "banned_words", "banned_subwords")
        },
    }

    found = {}

    for name in FILTERS.available():
        if name not in ("quality", "datatrove"):  # a linear model of match words; a library
            built = FILTERS.resolve({"name": name, **options.get(name, {})}).build()
            found[f"filter {name}"] = lambda text, step=built: judge_text(step, text) or KEEP

            if built.before_extraction:
                found[f"filter {name}: host"] = lambda text, step=built: judge_text(
                    step, "", url=f"http://{text}/"
                )
                found[f"filter {name}: path"] = lambda text, step=built: judge_text(
                    step, "", url=f"http://a.b/{text}"
                )

    for name in SENTENCES.available():
        splitter = SENTENCES.resolve(name).build()
        found[f"sentences {name}"] = lambda text, starts=splitter.starts: starts(text, "en")

    index = build_index([("0", ("w1 w2 w3 w4 w5 w6 w7", "a a a a a a a"))], 5)
    lines = LinePieces(max_documents=1, keep_first=False, within="all", units=1, min_letters=20)
    found |= {
        "normalize": normalize,
        "match_words": match_words,
        "word_tokens": word_tokens,
        "near keys": MinHash().signature,
        "repeated lines": lambda text: lines.hashes(text, "en"),
        "contamination": lambda text: Matcher(index).find(text),
        "items": lambda text: build_index([("0", (text,))], 13),
        "ascii_host": ascii_host,
        "ascii_url": ascii_url,
        "extract_host": lambda text: extract_host(f"http://{text}"),
        "wikitext": strip_markup,
        "normalize_url": lambda text: normalize_url(f"http://a.example/{text}"),
    }

    return found


def readers(folder):
    """Return the reading of a file by each reader, and of the parts of a page in a capture and of a
    row."""
    doors = {name: (name, str.encode) for name in READERS.available()} | {
        "body": ("warc", lambda text: record(http(b"<html><body>" + text.encode()))),
        "headers": (
            "warc",
            lambda text: record(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + text.encode()),
        ),
        "chunks": ("warc", lambda text: record(http(text.encode(), "Transfer-Encoding: chunked"))),
        "value": ("jsonl", lambda text: b'{"text": ' + text.encode()),
        "field": ("csv", lambda text: b'text,b\n"' + text.encode()),
    }

    def read_text(text, name, fill):
        (folder / "file").write_bytes(fill(text))
        read(folder / "file", name=name)

    return {
        f"reader: {door}": partial(read_text, name=name, fill=fill)
        for door, (name, fill) in doors.items()
    }


def growth(function, rule, small):
    """Return how many times the CPU time of ten times the text is that of the text: the best of
    three runs each."""

    def best(text):
        times = []

        for _ in range(3):
            start = time.process_time()
            function(text)
            times.append(time.process_time() - start)

        return min(times)

    # a small time is mostly that of the call: take no less than a millisecond
    return best(strings(10 * small)[rule]) / max(best(strings(small)[rule]), 1e-3)


_FEW = [
    "a letter, then marks",
    "hyphen chain",
    "one long word",
    "repeated '.'",
    "repeated 'a@b.'",
    "repeated '{{a|'",
]
_MOST = 25


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return {**functions(folder), **readers(tmp_path_factory.mktemp("read"))}


@pytest.mark.parametrize("rule", _FEW)
def test_ten_times_the_text_takes_about_ten_times_as_long(rule, judged):
    assert {
        name: ratio
        for name, each in judged.items()
        if (ratio := growth(each, rule, 3_000)) >= _MOST
    } == {}


@pytest.mark.slow
def test_every_rule(judged):
    grown = {
        (name, rule): growth(each, rule, 3_000)
        for name, each in judged.items()
        for rule in sorted(strings(1))
    }

    assert {case: ratio for case, ratio in grown.items() if ratio >= _MOST} == {}
