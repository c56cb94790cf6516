"""Mailboxes: the standard library writes them, and what it was given comes back."""

import gzip
import mailbox
from email.message import EmailMessage
from email.mime.text import MIMEText

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeline.pipeline.ingest.readers import RawRecord
from tests.pipeline.captures import counted, read, texts

FILE = (
    b"From a@example.org Thu Jan  2 00:00:01 2020\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n"
    b"Date: Thu, 02 Jan 2020 00:00:01 +0000\nContent-Type: text/plain; charset=utf-8\n"
    b"Content-Transfer-Encoding: quoted-printable\n\nIt is 3 =3D 3. =C3=BC=\nber alles "
    b"gut.\n>From here on.\n\n"
    b"From b@example.org Thu Jan  2 00:00:02 2020\nSubject: two\n\nThe second.\n\nFrom what I "
    b"see, it rains.\n"
)


def boxed(tmp_path, *messages):
    box = mailbox.mbox(tmp_path / "made.mbox")
    for message in messages:
        box.add(message)
    box.close()
    return tmp_path / "made.mbox"


def test_parts_are_decoded_and_a_line_that_begins_with_from_is_text(read_as):
    items = read_as(FILE)

    assert texts(items) == [
        "It is 3 = 3. über alles gut.\nFrom here on.",
        "The second.\n\nFrom what I see, it rains.",
    ]
    assert [item.extra for item in items] == [{"subject": "Grüße"}, {"subject": "two"}]
    assert [item.date for item in items] == [1577923201, None]
    assert [item.locator for item in items] == [0, FILE.index(b"From b@")]
    assert texts(read_as(gzip.compress(FILE))) == texts(items)
    assert texts(read_as(FILE.replace(b"\n", b"\r\n"))) == texts(items)


@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1", "utf-16", "windows-1252"])
def test_text_of_any_charset_comes_back(tmp_path, charset):
    message = MIMEText("Grüße aus Köln.\nEs regnet.", "plain", charset)
    assert texts(read(boxed(tmp_path, message), name="mbox")) == ["Grüße aus Köln.\nEs regnet."]


def test_plain_text_is_preferred_attachments_go_and_html_alone_is_markup(tmp_path):
    both = EmailMessage()
    alone = EmailMessage()
    mixed = EmailMessage()
    both.set_content("The plain text.")
    both.add_alternative("<p>The page.</p>", subtype="html")
    both.add_attachment("ATTACHED", filename="a.txt")
    both.add_attachment(b"\x00\x01", maintype="image", subtype="png", filename="a.png")
    alone.set_content("<p>Only a <b>page</b>.</p>", subtype="html")
    mixed.set_content("<p>A page.</p>", subtype="html")
    mixed.make_mixed()
    footer = EmailMessage()
    footer.set_content("A footer & more.")
    mixed.attach(footer)
    items = read(boxed(tmp_path, both, alone, mixed), name="mbox")

    assert [(item.text.strip(), item.is_markup) for item in items] == [
        ("The plain text.", False),
        ("<p>Only a <b>page</b>.</p>", True),
        ("<p>A page.</p>\n\n<pre>A footer &amp; more.\n</pre>", True),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "From memory at 10:30 it rained.",
        "From here on it rains.",
        "From: nobody",
        "From",
        "from a@b.c Thu Jan  2 00:00:01 2020",
    ],
)
def test_a_line_of_text_does_not_begin_a_message(read_as, line):
    """Programs that write no `>` before such lines are many; the next line is no header."""
    body = f"One.\n\n{line}\nTwo."
    head = "From a@example.org Thu Jan  2 00:00:01 2020\nSubject: s\n\n"

    assert texts(read_as(f"{head}{body}\n\n{head}Three.\n")) == [body, "Three."]

    short = "From - \nSubject: s\n\n"

    assert texts(read_as(f"{short}{body}\n\n{short}Three.\n")) == [body, "Three."]


@pytest.mark.parametrize(
    "first",
    [
        "From nobody Thu Jan  2 00:00:01 2020",
        "From 1690000@xxx Tue Aug 01 12:00:00 +0000 2023",
        "From -",
        "From a b c",
        "From john at gmail.com  Wed Feb 12 08:00:00 2020",
    ],
)
def test_first_lines_of_many_programs_begin_a_message(read_as, first):
    message = f"{first}\nX-Header: a\nSubject: s\n\nWords.\n"
    assert texts(read_as(f"{message}\n{message}\n{message}")) == ["Words."] * 3


@pytest.mark.parametrize(
    "charset", ["%CHARSET", "cp-850", "", '"utf-8', "utf-8; format=flowed", "ansi_x3.110-1983"]
)
def test_names_of_charsets_that_nobody_knows(read_as, charset):
    content = f"From -\nContent-Type: text/plain; charset={charset}\n\nÜber alles gut.\n".encode()
    assert texts(read_as(content)) == ["Über alles gut."]


def test_a_message_in_a_file_of_its_own_is_one_document(read_as):
    content = FILE.partition(b"\n")[2].partition(b"\n\nFrom b@")[0]
    assert texts(read_as(content, "a.eml")) == ["It is 3 = 3. über alles gut.\nFrom here on."]


@pytest.mark.parametrize(
    "hurt",
    [
        b"Content-Type: text/plain; charset=nosuch\n\nGood words.\n",
        b"Content-Type: multipart/mixed\n\nGood words.\n",
        b"Subject: =?utf-8?b?!!!!?=\n\nGood words.\n",
        b"Date: 32 Foo 99999999999\n\nGood words.\n",
        b"Content-Transfer-Encoding: base64\n\n!!!not base64\n",
        b"Subject: =?nosuch?q?x?=\n\nGood words.\n",
        *(
            header + b"\n\nWords.\n"  # of any length, none holds a worker
            for header in (
                b"Subject: " + b"=?a?q?" * 400_000,
                b"Content-Type: text/plain; " + b'";' * 1_000_000,
                b"Content-Type: multipart/mixed; boundary=" + b"x" * 1_000_000,
                b"Date: " + b"(" * 1_000_000,
                b"Subject: " + b"a\n " * 50_000,
                b"A: b\n" * 50_000 + b"B: c",
            )
        ),
    ],
)
def test_a_hurt_message_costs_no_other(read_as, hurt):
    items = read_as(b"From x Thu Jan  2 00:00:01 2020\nX: y\n" + hurt + b"\n" + FILE)
    assert texts(items)[-2:] == texts(read_as(FILE))
    assert len(items) == 3


def test_what_is_outside_of_messages_is_counted(read_as):
    assert counted(read_as(b"words\n\nmore words\n")) == {"line_outside_messages": 2}


@settings(max_examples=60)
@given(content=st.binary(max_size=400))
def test_any_bytes_become_records_or_are_counted(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("any") / "a.mbox"
    path.write_bytes(b"From x\nA: b\n" + content + b"\n\nFrom y\nSubject: z\n\nGood.\n")
    items = read(path, name="mbox")
    assert texts(items)[-1] == "Good."
    assert all(isinstance(item, RawRecord) or item.reason for item in items)


def test_parts_in_parts_in_parts_end_with_a_count(read_as):
    deep = b"".join(
        b'Content-Type: multipart/mixed; boundary="b%d"\n\n--b%d\n' % (n, n) for n in range(3000)
    )
    items = read_as(b"From x\n" + deep + b"\nwords\n")
    assert len(items) == 1
