from __future__ import annotations

import io
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.clean.filters import KEEP, Verdict
from clozeline.pipeline.clean.filters.pii import Pii
from clozeline.pipeline.ingest.documents.document import FLAG_PII_REPLACED
from clozeline.pipeline.text.text_statistics import TextStatistics
from tests.pipeline.clean.cleaning import run_clean


def judge(text: str, **options: Any) -> Verdict:
    return Pii(Pii.Options(**options)).judge(TextStatistics(text), "en")


def replaced(text: str, **options: Any) -> str:
    verdict = judge(text, **options)
    return text if verdict.text is None else verdict.text


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("Write to ann@example.org from 8.8.8.8.", "Write to <email> from <ip>."),
        ("<a.b+c@mail.example.co.uk>, x", "<<email>>, x"),
        ("müller@bücher.de", "<email>"),
        ("mailto:ann@example.org!", "mailto:<email>!"),
        ("ann@localhost and @ann and a @ b.org", ""),
        ("ann.@example.org", ""),
        ("192.168.1.1, 10.0.0.1, 127.0.0.1, 172.16.3.4 and 0.0.0.0", ""),
        ("1.2.3, 1.2.3.4.5, 256.1.1.1, 8.8.8.8x, v8.8.8.8", ""),
        ("(93.184.216.34:80)", "(<ip>:80)"),
        ("at 2606:2800:220:1:248:1893:25c8:1946.", "at <ip>."),
        ("at 2001:4860:4860::8888 now", "at <ip> now"),
        ("fe80::1, ::1, a::b, std::vector, 12:30:45 and 2001:db8::1", ""),
        ("IBAN DE89 3704 0044 0532 0130 00.", "IBAN <iban>."),
        ("gb82WEST12345698765432", "<iban>"),
        ("DE88 3704 0044 0532 0130 00", ""),
    ],
)
def test_personal_data_becomes_tokens(text: str, edited: str) -> None:
    assert replaced(text) == (edited or text)
    assert (judge(text) == KEEP) == (not edited)


@pytest.mark.parametrize(
    ("text", "edited"),
    [
        ("Call +1-984-182-0190 or (0490) 75 40 81.", "Call <phone> or <phone>."),
        ("Call +46 8928 571 38 x12", "Call <phone>"),
        ("On 2020-11-23, 23.11.2020 and 123-45-6789 and 12345678901 times", ""),
        ("Call 12-34.", ""),
    ],
)
def test_phone_numbers_are_replaced_on_demand(text: str, edited: str) -> None:
    assert replaced(text, phone=True) == (edited or text)
    assert replaced(text) == text


def test_each_kind_can_be_left_alone_and_is_counted() -> None:
    text = "ann@example.org, bob@example.org, 8.8.8.8 and GB82WEST12345698765432"
    assert replaced(text, email=False, ip=False, iban=False) == text
    assert replaced(text, email=False, iban=False) == text.replace("8.8.8.8", "<ip>")
    verdict = judge(text)
    assert verdict.removed == {"email": 30, "ip": 7, "iban": 22}
    assert verdict.edits["email"] == (text[:55], text[:55].replace("ann@example.org", "<email>"))
    assert verdict.flags == FLAG_PII_REPLACED == 8


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(["ann@example.org", "8.8.8.8", "x", " ", "\n", ".", "1", "@", "::", "é"]), max_size=12))
def test_only_what_is_found_changes(pieces: list[str]) -> None:
    text = "".join(pieces)
    spans = list(Pii(Pii.Options(phone=True)).find(text))
    assert all(end <= start for (_, _, end), (_, start, _) in pairwise(spans))
    rebuilt, last = "", 0
    for kind, start, end in spans:
        rebuilt, last = f"{rebuilt}{text[last:start]}<{kind}>", end
    assert replaced(text, phone=True) == rebuilt + text[last:]


@pytest.mark.parametrize("piece", ["a.", "1.", "1:", "12 ", "AB12 ", "a@", "a@b.", "+1(", "@" * 10, "8.8.8.8 "])
def test_long_texts_take_linear_time(piece: str) -> None:
    """A pattern with quadratic time would need minutes here."""
    judge(piece * (400_000 // len(piece)), phone=True)


def test_a_run_counts_edits_and_sets_the_flag(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "Mail ann@example.org."}\n{"text": "No mail."}\n')
    done = run_clean(str(path), tmp_path / "out", {"language": None, "filters": ["pii"]})
    assert [(document.text, document.flags) for document in done.documents] == [("Mail <email>.", 8), ("No mail.", 0)]
    assert done.counts["edits"] == {"pii.email": 15}
    assert done.counts["characters_removed"]["pii"] == 8


@pytest.mark.data
@pytest.mark.skipif("CLOZELINE_DATA" not in os.environ, reason="CLOZELINE_DATA names no folder of real files")
def test_the_figures_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    packed = (Path(os.environ["CLOZELINE_DATA"]) / "lists" / "pii_synth_dataset_v2.json.zst").read_bytes()
    rows = json.load(io.BytesIO(zstandard.ZstdDecompressor().stream_reader(packed).read()))
    figures = measure(rows)
    with capsys.disabled():
        print("\nkind   labeled  precision  recall")
        for kind, (labeled, precision, recall) in figures.items():
            print(f"{kind:6} {labeled:7} {precision:10.3f} {recall:7.3f}")
    for kind, least in {"email": (1.0, 1.0), "ip": (1.0, 0.92), "iban": (1.0, 1.0), "phone": (0.79, 0.86)}.items():
        assert figures[kind][1] >= least[0]
        assert figures[kind][2] >= least[1]


def measure(rows: list[dict[str, Any]]) -> dict[str, tuple[int, float, float]]:
    """Labeled spans, and the shares of replaced spans that touch one and of labeled spans that are touched, by kind."""
    pii = Pii(Pii.Options(phone=True))
    types = {"email": "EMAIL_ADDRESS", "ip": "IP_ADDRESS", "iban": "IBAN_CODE", "phone": "PHONE_NUMBER"}
    figures = {}
    for kind, label in types.items():
        hits = labeled = ours = touched = 0
        for row in rows:
            gold = [
                (span["start_position"], span["end_position"]) for span in row["spans"] if span["entity_type"] == label
            ]
            spans = [(start, end) for each, start, end in pii.find(row["full_text"]) if each == kind]
            ours, labeled = ours + len(spans), labeled + len(gold)
            hits += sum(any(start < last and first < end for first, last in gold) for start, end in spans)
            touched += sum(any(start < last and first < end for start, end in spans) for first, last in gold)
        figures[kind] = (labeled, hits / ours, touched / labeled)
    return figures
