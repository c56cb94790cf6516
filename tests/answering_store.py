"""A store of one object on the loopback interface, for HTTP and for S3, whose answers to ranges a test chooses."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.loopback_site import Site


@dataclass
class Answer:
    """What is sent for the bytes from `start` to `stop`; each part may be changed."""

    start: int
    stop: int
    status: int = 206
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    says: str | None = None
    """Content-Range, if it is not that of the body"""


class AnsweringStore:
    """Serves `content` as `NAME` in a bucket; `change` sees each answer to a range, `refuse` each one without."""

    name = "bucket/in/a.jsonl"
    key, secret = "key-of-the-test", "hush-hush-of-the-test"

    def __init__(self, content, scheme):
        self.content, self.scheme = content, scheme
        self.change = lambda answer: None
        self.refuse = lambda answer: None
        self.asked = []
        self.site = Site({f"/{self.name}": self._send})
        self.site.protocol = "HTTP/1.1"

    @contextmanager
    def running(self):
        with self.site.running():
            yield self

    @property
    def url(self):
        return f"{self.site.url}{self.name}" if self.scheme == "http" else f"s3://{self.name}"

    def entry(self, **store):
        """The object as an input."""
        options = {"key": self.key, "secret": self.secret, "client_kwargs": {"endpoint_url": self.site.url}}
        return {"path": self.url, "store": {"fsspec": options if self.scheme == "s3" else {}, **store}}

    def _send(self, request):
        size = len(self.content)
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        answer = Answer(0, size, 200) if asked is None else Answer(int(asked[1]), min(size, int(asked[2]) + 1))
        if asked:
            self.asked.append((answer.start, answer.stop))
        (self.change if asked else self.refuse)(answer)
        body = self.content[answer.start : answer.stop] if answer.body is None else answer.body
        request.send_response(answer.status)
        headers = {"ETag": '"one"', "Content-Length": str(len(body)), "Last-Modified": "Fri, 01 May 2026 10:00:00 GMT"}
        if answer.status == 206:
            headers["Content-Range"] = f"bytes {answer.start}-{answer.stop - 1}/{size}"
        if answer.says is not None:
            headers["Content-Range"] = answer.says
        for name, value in (headers | answer.headers).items():
            if value:
                request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)
