"""A web server on the loopback interface that serves bytes by ranges, and misbehaves as told."""

import contextlib
import hashlib
import re

from tests.loopback_site import Site


class RangeSite:
    """Serves `files` by name; `faults` are taken one a request before it behaves, the empty one is none.

    A number: that status; cut: the connection is closed in the middle; short: an answer that ends early; 200: the
    whole file in place of the range. Only the statuses in `always` are also given to requests without a range.
    `before` is called with the name before each answer and may change `files`.
    """

    always = ("400", "403", "404")

    def __init__(self, files, *, versions=True):
        self.files, self.faults = files, list[str]()
        self.served = []
        self.before = lambda name: None
        self._versions = versions
        self.site = Site({f"/{name}": self._answer for name in files})

    def add_query(self, query):
        self.site.pages |= {f"{path}?{query}": answer for path, answer in self.site.pages.items()}

    def _answer(self, request):
        name = request.path[1:].partition("?")[0]
        self.before(name)
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        fault = self.faults[0] if self.faults and (asked or self.faults[0] in self.always) else ""
        if fault or asked:
            del self.faults[:1]
        content = self.files[name]
        if fault.isdigit() and fault != "200":
            request.send_error(int(fault))
            return
        start, stop = (int(asked[1]), min(int(asked[2]) + 1, len(content))) if asked else (0, len(content))
        body, status = content[start:stop], 206 if asked else 200
        if asked and start >= len(content):
            body, status = b"", 416
        if fault == "200":
            body, status = content, 200
        if fault == "short":
            body = body[:-1]
        if asked:
            self.served.append((name, start, stop))
        with contextlib.suppress(ConnectionError):
            request.send_response(status)
            if status != 200:
                request.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
            if self._versions:
                request.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.close_connection = request.close_connection or fault == "cut"
            request.wfile.write(body[: len(body) // 2] if fault == "cut" else body)
