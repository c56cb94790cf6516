"""Inputs in stores that answer in ways of their own: the text that lies there, or a refusal in the
store's words."""

import json
import re
import time
from contextlib import contextmanager
from email.utils import formatdate
from types import SimpleNamespace
from urllib.parse import unquote

import boto3
import pytest
from moto.server import ThreadedMotoServer

from clozeline.errors import PartialFailureError, StorageError
from tests.loopback_site import Site
from tests.pipeline.clean.cleaning import run_clean

LIST = b"<ListBucketResult><IsTruncated>false</IsTruncated>%s</ListBucketResult>"
ENTRY = b"<Contents><Key>in/a.jsonl</Key><ETag>&quot;one&quot;</ETag><Size>9</Size></Contents>"


class AnsweringStore:
    """Serves `content` as `NAME` in a bucket.

    `change` sees each answer to a range, `refuse` each one without, and `lists` are given in place
    of the first lists with the name.
    """

    name = "bucket/in/a.jsonl"
    key = "key-of-the-test"
    secret = "hush-hush-of-the-test"

    def __init__(self, content, scheme):
        self.content = content
        self.scheme = scheme
        self.change = lambda answer: None
        self.refuse = lambda answer: None
        self.asked = []
        self.lists = []
        self.site = Site({f"/{self.name}": self._send}, self._list)

    @contextmanager
    def running(self):
        with self.site.running():
            yield self

    @property
    def url(self):
        return f"{self.site.url}{self.name}" if self.scheme == "http" else f"s3://{self.name}"

    def entry(self, **store):
        options = {
            "key": self.key,
            "secret": self.secret,
            "client_kwargs": {"endpoint_url": self.site.url},
        }

        return {
            "path": self.url,
            "store": {"fsspec": options if self.scheme == "s3" else {}, **store},
        }

    def _list(self, request):
        """Answer a request for a list, else that there is no such object."""
        prefix = re.search(r"[?&]list-type=2.*[?&]prefix=([^&]*)", request.path)
        lists = prefix is not None and self.name.startswith(f"bucket/{unquote(prefix[1])}")
        body = self.lists.pop(0) if lists and self.lists else LIST % (ENTRY if lists else b"")
        request.send_response(404 if prefix is None else 200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _send(self, request):
        size = len(self.content)
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        # Content-Range
        answer = SimpleNamespace(start=0, stop=size, status=200, headers={}, body=None, says=None)

        if asked:
            answer.start = int(asked[1])
            answer.stop = min(size, int(asked[2]) + 1)
            answer.status = 206

        if asked:
            self.asked.append((answer.start, answer.stop))
        (self.change if asked else self.refuse)(answer)
        body = self.content[answer.start : answer.stop] if answer.body is None else answer.body
        request.send_response(answer.status)
        headers = {
            "ETag": '"one"',
            "Content-Length": str(len(body)),
            "Last-Modified": "Fri, 01 May 2026 10:00:00 GMT",
        }
        if answer.status == 206:
            headers["Content-Range"] = f"bytes {answer.start}-{answer.stop - 1}/{size}"
        if answer.says is not None:
            headers["Content-Range"] = answer.says
        for name, value in (headers | answer.headers).items():
            if value:
                request.send_header(name, value)

        request.end_headers()
        request.wfile.write(body)


SENTENCE = "The ferry left the harbor before the fog came in, and nobody on the pier waved. "


def line(text):
    return json.dumps({"text": f"{text}. {SENTENCE * 3}"}).encode() + b"\n"


LINES = [line(f"Document {number}") for number in range(1200)]
CONTENT = b"".join(LINES)
RIGHT = [json.loads(line)["text"].strip() for line in LINES]


def texts(source, output):
    return [document.text for document in run_clean(source, output).documents]


@pytest.fixture(params=["http", "s3"])
def store(request):
    with AnsweringStore(CONTENT, request.param).running() as store:
        yield store


@pytest.fixture
def pauses(monkeypatch):
    """Pauses of the client, which do not take place."""
    found = []
    monkeypatch.setattr("clozeline.pipeline.shards.store.time", SimpleNamespace(sleep=found.append))
    return found


# 206 with another range
# ----------------------------------------------------------------------------------------------


def shifted(answer):
    """The range before the one that was asked for, said honestly: as a cache gives that counts
    pages from zero."""
    answer.start, answer.stop = (
        max(0, answer.start - 500),
        max(0, answer.start - 500) + answer.stop - answer.start,
    )


def from_the_start(answer):
    answer.start, answer.stop = 0, answer.stop - answer.start


def unsaid(answer):
    answer.start += 7
    answer.says = ""


@pytest.mark.parametrize("wrong", [shifted, from_the_start, unsaid])
def test_another_range_is_never_taken_for_the_one_that_was_asked_for(
    store, wrong, pauses, tmp_path
):
    turns = iter([False, True, False, True, True] + [False] * 99)

    def change(answer):
        if answer.start and next(turns):
            wrong(answer)

    store.change = change

    assert texts(store.entry(), tmp_path / "out") == RIGHT

    store.change = lambda answer: wrong(answer) if answer.start else None

    with pytest.raises(
        PartialFailureError, match=r"cannot be read after 2 tries: asked for bytes=\d+-\d+, got "
    ):
        texts(store.entry(retries=1), tmp_path / "other")


def test_the_rest_of_a_shorter_answer_is_asked_for(store, pauses, tmp_path):
    """Caches answer up to the end of their pages."""
    page = 10_000

    def change(answer):
        answer.stop = min(answer.stop, answer.start - answer.start % page + page)

    store.change = change

    assert texts(store.entry(retries=0), tmp_path / "out") == RIGHT
    assert not pauses


# 429 and 503 with Retry-After
# ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_store_is_waited_for_as_long_as_it_asks(store, status, pauses, caplog, tmp_path):
    asked = iter(["7", formatdate(time.time() + 20, usegmt=True), "40", "7", "7"])

    def change(answer):
        if (seconds := next(asked, None)) is not None:
            answer.status = status
            answer.body = b""
            answer.headers = {"Retry-After": seconds}

    store.change = change

    assert texts(store.entry(retries=0), tmp_path / "out") == RIGHT

    waits = [pause for pause in pauses if pause > 1]

    assert len(waits) == 5
    assert 60 <= sum(waits) <= 7 + 21 + 40 + 7 + 7
    assert caplog.text.count("asks to wait") == 5


def test_the_sum_of_the_waits_of_a_request_has_a_bound(store, pauses, tmp_path):
    def change(answer):
        answer.status = 503
        answer.body = b""
        answer.headers = {"Retry-After": "70"}

    store.change = change
    with pytest.raises(StorageError, match="asks to wait 70 s"):
        texts(store.entry(), tmp_path / "out")

    assert 200 <= sum(pauses) <= 301


@pytest.mark.parametrize("fault", ["empty list", "short list", "look"])
def test_a_list_that_fails_once_leaves_no_file_out(fault, pauses, tmp_path):
    """The empty answer of a proxy is no list without files."""
    statuses = iter([503] if fault == "look" else [])

    def refuse(answer):
        answer.status = next(statuses, answer.status)

    with AnsweringStore(CONTENT, "s3").running() as store:
        store.refuse = refuse
        store.lists = {"empty list": [b""], "short list": [LIST[:40]]}.get(fault, [])
        entry = {**store.entry(retries=1), "path": "s3://bucket/in/*.jsonl"}

        assert texts(entry, tmp_path / "out") == RIGHT
    assert len(pauses) == 1


# Refusals
# --------------------------------------------------------------------------------------------------


def xml(code, message):
    return f'<?xml version="1.0"?>\n<Error><Code>{code}</Code><Message>{message}</Message><Id>9</Id></Error>'.encode()


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (400, "ExpiredToken", "The provided token has expired."),
        (403, "AccessDenied", "Access Denied"),
    ],
)
def test_a_refusal_has_the_words_of_the_store(store, status, code, message, pauses, tmp_path):
    def change(answer):
        answer.status = status
        answer.headers = {"Content-Type": "application/xml"}
        answer.body = xml(code, f"{message} {store.secret}")

    store.change = store.refuse = change
    with pytest.raises(StorageError, match="the store refuses") as caught:
        texts(store.entry(), tmp_path / "out")

    assert f"{code}: {message}" in str(caught.value)

    if store.scheme == "s3":
        assert store.secret not in str(caught.value)

    assert not pauses, "another try cures none of them"


def test_a_missing_object_and_a_redirect_to_anything_but_the_web_are_told_from_it(
    store, pauses, tmp_path
):
    def missing(answer):
        answer.status = 404
        answer.body = xml("NoSuchKey", "The specified key does not exist.")

    def redirect(answer):
        answer.status = 302
        answer.body = b""
        answer.headers = {"Location": "file:///etc/hostname"}

    for change, said in ((missing, r"no such object$"), (redirect, "NonHttpUrlRedirect")):
        if change is missing or store.scheme == "http":
            store.change = store.refuse = change
            with pytest.raises(StorageError, match=said):
                texts(store.entry(retries=0), tmp_path / "out")

    assert not pauses


# Keys byte for byte
# --------------------------------------------------------------------------------------------------

KEYS = (
    "in/a.jsonl",
    "in//a.jsonl",
    "in//deep//b.jsonl",
    "in/deep/c.jsonl",
    "in/part[1].jsonl",
    "in/part1.jsonl",
    "in/100%.jsonl",
    "in/a b+ü.jsonl",
    "in/../up.jsonl",
    "in/q?.jsonl",
    "in/.hidden.jsonl",
    "other//a.jsonl",
)


@pytest.fixture(scope="module")
def s3():
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    login = {"aws_access_key_id": "test-key", "aws_secret_access_key": "test-secret"}
    client = boto3.client(
        "s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1", **login
    )
    client.create_bucket(Bucket="bucket")
    for key in KEYS:
        client.put_object(Bucket="bucket", Key=key, Body=line(key))
    yield client
    server.stop()


def in_bucket(s3, path):
    options = {
        "key": "test-key",
        "secret": "test-secret",
        "client_kwargs": {"endpoint_url": s3.meta.endpoint_url},
    }

    return {"path": f"s3://bucket/{path}", "store": {"fsspec": options}}


def test_a_key_is_taken_byte_for_byte(s3, tmp_path):
    keys = [key for key in KEYS if ".hidden" not in key]
    entries = [{**in_bucket(s3, key), "source": f"{number}"} for number, key in enumerate(keys)]
    found = run_clean(entries, tmp_path).documents

    assert {int(one.source_group): one.text.partition(". The ferry")[0] for one in found} == dict(
        enumerate(keys)
    )


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("in/**/*.jsonl", [key for key in KEYS if key.startswith("in/") and "/." not in key]),
        ("in//*.jsonl", ["in//a.jsonl"]),
        ("in//deep//*", ["in//deep//b.jsonl"]),
        ("in/part[12].jsonl", ["in/part1.jsonl"]),
        ("*/part[1].jsonl", ["in/part1.jsonl"]),
        ("other//*", ["other//a.jsonl"]),
    ],
)
def test_a_pattern_leaves_no_key_out(s3, pattern, wanted, tmp_path):
    found = [text.partition(". The ferry")[0] for text in texts(in_bucket(s3, pattern), tmp_path)]

    assert sorted(found) == sorted(wanted)
