"""Time grows linearly with hostile texts, in every filter, splitter, function of texts and reader.

Ratios of CPU time, never limits: twice the text may take 2.6 times as long; a quadratic function
takes 4 times. What takes less than a fifth of a second says nothing.
"""

import inspect
import pkgutil
import time
from contextlib import suppress
from functools import lru_cache, partial
from importlib import import_module

import pytest

import clozeline.configuration
import clozeline.pipeline
from clozeline import errors
from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.filters import KEEP
from clozeline.pipeline.dedup.exact import normalize_url
from clozeline.pipeline.dedup.near import Sketch
from clozeline.pipeline.registries import FILTERS, READERS, SEGMENTERS, SENTENCES
from clozeline.pipeline.text.hosts import extract_host
from clozeline.pipeline.text.normal_form import fold, normalize_as, normalize_field
from clozeline.pipeline.text.word_hashes import hash_words
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
"""Pieces of texts that repeat one."""


def repeat(piece, size):
    return (piece * (size // len(piece) + 1))[:size]


def count(separator, size):
    return "".join(f"w{number}{separator}" for number in range(size // 6))[:size]


def list_items(size):
    line = "- {:09} is an item of a list whose lines have one width\n"
    return "".join(map(line.format, range(size // 65)))


RULES = {f"repeated {piece!r}": partial(repeat, piece) for piece in REPEATED} | {
    "different words": partial(count, " "),
    "different lines": partial(count, "\n"),
    "hyphen chain": partial(count, "-"),
    "one long word": partial(repeat, "ab"),
    "opened, then closed": lambda size: "(" * (size // 2) + ")" * (size // 2),
    "blanks, then a letter": lambda size: " " * size + "a",
    "a letter, then marks": lambda size: "a" + "\u0301" * size,
    "marks out of order": lambda size: "a" + "\u0301\u0323" * (size // 2),
    "items of one width": list_items,
}
"""Functions that return a text of some size, by name."""


@lru_cache(16)
def text_of(rule, size):
    return RULES[rule](size)


def text_functions(module):
    """Return the public functions of a module that need nothing but a text."""
    found = {}

    for name, function in inspect.getmembers(module, inspect.isfunction):
        needed = [
            parameter.annotation
            for parameter in inspect.signature(function).parameters.values()
            if parameter.default is parameter.empty
            and parameter.kind is not parameter.VAR_POSITIONAL
        ]
        if name[0] != "_" and function.__module__ == module.__name__ and needed == [str]:
            found[f"{module.__name__}.{name}"] = function

    return found


def functions(folder):
    """Return all filters, splitters and functions of texts by their names."""
    (folder / "en").write_text("forbidden\nworse word\n")
    (folder / "list.txt").write_text("example.org\n")
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

    for name in SEGMENTERS.available():
        with suppress(ConfigurationError):  # its package is missing
            words = SEGMENTERS.resolve(name).build()
            found[f"words {name}"] = lambda text, starts=words.starts: starts(text, {})

    for package in (clozeline.pipeline, clozeline.configuration):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            found |= text_functions(import_module(module.name))
    found |= text_functions(errors)
    found |= {
        "normalize_as code": partial(normalize_as, "code"),
        "normalize_field": partial(normalize_field, "prose"),
        "near keys": lambda text: Sketch().signatures([text]),
        "extract_host": lambda text: extract_host(f"http://{text}"),
        "minhash words": lambda text: hash_words(fold(text)),
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


def seconds(function, text):
    """Return the CPU time of a call; a text may be refused, as by YAML."""
    start = time.process_time()
    with suppress(Exception):
        function(text)
    return time.process_time() - start


def growth(function, rule, most):
    """Return how many times the CPU time of a text is that of its half; 0 if both are short.

    Texts grow up to `most` characters, until one takes a fifth of a second.
    """
    size = 2_000
    while (spent := seconds(function, text_of(rule, size))) < 0.2:
        if size == most:
            return 0
        size = min(most, int(size * min(16, max(2, (1 / max(spent, 1e-6)) ** 0.5))))

    texts = (text_of(rule, size), text_of(rule, 2 * size))
    ratio = seconds(function, texts[1]) / spent
    if ratio <= MOST:
        return ratio
    once, twice = (min(seconds(function, text) for _ in range(3)) for text in texts)
    return twice / once


MOST = 2.6


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    return {**functions(folder), **readers(tmp_path_factory.mktemp("read"))}


@pytest.mark.slow
@pytest.mark.parametrize("rule", sorted(RULES))
def test_twice_the_text_takes_about_twice_as_long(rule, judged):
    grown = {name: growth(each, rule, 1 << 18) for name, each in judged.items()}
    assert {name: ratio for name, ratio in grown.items() if ratio > MOST} == {}
