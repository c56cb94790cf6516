"""Time grows linearly with hostile texts, in every filter, splitter, function of texts and tokenizer.

Ratios of CPU time, never limits: ten times the text may take 25 times as long; a quadratic function takes 100 times.
"""

import time

import pytest

from clozeline.pipeline.clean.filters import KEEP
from clozeline.pipeline.dedup.exact import normalize_url
from clozeline.pipeline.dedup.near import MinHash
from clozeline.pipeline.dedup.repeats import Lines
from clozeline.pipeline.ingest.readers.mediawiki import strip_markup
from clozeline.pipeline.kernels.ngram_index import Matcher, build_index
from clozeline.pipeline.text.hosts import ascii_host, ascii_url, host_of
from clozeline.pipeline.text.normal_form import match_words, normalize
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.pipeline.text.word_tokens import word_tokens
from clozeline.registry import choose, names
from tests.pipeline.tokenize.tokenizers.test_tokenizer import NAMES, trained

REPEATED = (
    *".,-'\"_@:;!?/\\|#*=~^%&<>[](){}$0aA \n\t\xe9漢กא",
    "\u0301",
    "\u093f",
    "\u200d",
    "\u200b",
    "\u202e",
    "\xad",
    "\u2028",
    "\ufffd",
    "\U0001f469\u200d",
    "e\u0301\u0323",
    "1.",
    "1:",
    "a.",
    "a-",
    "a'",
    "a@",
    "@a.",
    "a@b.",
    "A.B. ",
    "U.S.",
    "1,000,",
    "12-34 ",
    "+1(",
    "8.8.8.8 ",
    "::1:",
    *("GB82 WEST 1234 ", "DE89 3704", "http://a.", "www.a/?b=&", "&amp;", "&#x26", "%41%", "Dr. ", "\u201c\u201d"),
    *("...\n", "\r\n", " \n", "a\n", "- a\n", "{{a|", "}}", "[[a|", "]]", "'''", "-{a;", "== a\n", "<a b=c>", "</b>"),
    *("__TOC__", "javascript ", "lorem ipsum "),
)
"""A piece for each kind of string that `strings` repeats."""


def strings(size):
    """Return strings of `size` characters by their rules."""
    repeated = {f"repeated {piece!r}": (piece * (size // len(piece) + 1))[:size] for piece in REPEATED}
    half, counted = size // 2, "".join(f"w{number} " for number in range(size // 6))[:size]
    mixed = {
        "different words": counted,
        "different lines": counted.replace(" ", "\n"),
        "hyphen chain": counted.replace(" ", "-"),
        "one long word": "ab" * half,
        "opened, then closed": "(" * half + ")" * half,
        "blanks, then a letter": " " * (size - 1) + "a",
        "a letter, then marks": "a" + "\u0301" * (size - 1),
        "long numbers": "1234567890" * (size // 10),
    }
    return repeated | mixed


def functions(folder):
    """Return all filters, splitters and functions of texts by their names."""
    (folder / "en").write_text("forbidden\nworse word\n", encoding="utf-8")
    (folder / "list.txt").write_text("example.org\n", encoding="utf-8")
    options  = {
        "bad_words": {"lists": str(folder)}, "pii": {"phone": True},
        "url": {name: [str(folder / "list.txt")] for name in ("domains", "urls", "banned_words", "banned_subwords")},
    }  # fmt: skip
    found = {}
    package = "clozeline.pipeline.clean.filters"
    for name in names(package):
        if name != "quality":  # a linear model of match words
            built = choose(package, {"name": name, **options.get(name, {})}).build()
            found[f"filter {name}"] = lambda text, judge=built.judge: judge(TextStatistics(text), "en") or KEEP
            if hasattr(built, "judge_url"):
                found["filter url: host"] = lambda text, judge=built.judge_url: judge(f"http://{text}/")
                found["filter url: path"] = lambda text, judge=built.judge_url: judge(f"http://a.example/{text}")
    for name in names("clozeline.pipeline.text.sentences"):
        splitter = choose("clozeline.pipeline.text.sentences", name).build()
        found[f"sentences {name}"] = lambda text, starts=splitter.starts: starts(text, "en")
    index = build_index([("0", ("w1 w2 w3 w4 w5 w6 w7", "a a a a a a a"))], 5)
    lines = Lines(max_documents=1, keep_first=False, within="all", units=1, min_letters=20)
    found |= {
        "normalize": normalize, "match_words": match_words, "word_tokens": word_tokens,
        "near keys": MinHash().signature, "repeated lines": lambda text: lines.hashes(text, "en"),
        "contamination": lambda text: Matcher(index).find(text),
        "items": lambda text: build_index([("0", (text,))], 13),
        "ascii_host": ascii_host, "ascii_url": ascii_url, "host_of": lambda text: host_of(f"http://{text}"),
        "wikitext": strip_markup, "normalize_url": lambda text: normalize_url(f"http://a.example/{text}"),
    }  # fmt: skip
    return found


def tokenizers(folder):
    """Return the encoding of a text by each type of tokenizer."""
    found = {}
    for name in NAMES:
        (folder / name).mkdir()
        tokenizer = trained(name, folder / name)
        found[f"tokenizer {name}"] = lambda text, encode=tokenizer.encode: encode([text])
    return found


def growth(function, rule, small):
    """Return how many times the CPU time of ten times the text is that of the text: the best of three runs each."""

    def best(text):
        times = []
        for _ in range(3):
            start = time.process_time()
            function(text)
            times.append(time.process_time() - start)
        return min(times)

    # a small time is mostly that of the call: take no less than a millisecond
    return best(strings(10 * small)[rule]) / max(best(strings(small)[rule]), 1e-3)


_RULES = sorted(strings(1))
_FEW = ["a letter, then marks", "hyphen chain", "one long word", "repeated '.'", "repeated 'a@b.'", "repeated '{{a|'"]
_MOST = 25


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    return functions(tmp_path_factory.mktemp("lists"))


@pytest.fixture(scope="module")
def encoders(tmp_path_factory):
    return tokenizers(tmp_path_factory.mktemp("tokenizers"))


@pytest.mark.parametrize("rule", _FEW)
def test_ten_times_the_text_takes_about_ten_times_as_long(rule, judged):
    assert {name: ratio for name, each in judged.items() if (ratio := growth(each, rule, 3_000)) >= _MOST} == {}


@pytest.mark.slow
@pytest.mark.parametrize("rule", _RULES)
def test_every_rule_up_to_300_kb(rule, judged, encoders):
    every = {**judged, **encoders}
    assert {name: ratio for name, each in every.items() if (ratio := growth(each, rule, 30_000)) >= _MOST} == {}
