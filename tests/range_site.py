"""Web servers on the loopback interface that serve bytes by ranges, and misbehave as told."""

import contextlib
import hashlib
import re
import threading
from functools import partial

from tests.loopback_site import Site

_CUT = ("cut", "stall", "drip")
_CHANGES = {
    "short": lambda body: body[:-1],
    "long": lambda body: body + b"\0",
    "flip": lambda body: bytes([body[0] ^ 1]) + body[1:],
}


class RangeSite:
    """Serves `files` by name.

    `faults` are taken one a request before it behaves, the empty one is none.

    A number: that status; 200: the entire file in place of the range; short, long: a byte too few
    or too many; flip: a wrong bit; cut: the connection is closed in the middle; stall: half of it,
    then nothing until `released`; drip: the other half a byte now and then; garbage: no HTTP; hang
    up: no answer; moved: a redirect. Only faults in `always` are also given to requests without a
    range. `before` is called with the name before each answer and may change `files`.
    """

    always = ("400", "403", "404")

    def __init__(self, files, *, versions=True):
        self.files = files
        self.faults = list[str]()
        self.served = []
        self.before = lambda name: None
        self.released = threading.Event()
        self._versions = versions
        self.site = Site({f"/{name}": partial(self._answer, name) for name in files})

    def add_query(self, query):
        self.site.pages |= {f"{path}?{query}": answer for path, answer in self.site.pages.items()}

    def _begin(self, name, start):
        self.before(name)
        return lambda: self.files[name]

    def _answer(self, name, request):
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
        read = self._begin(name, int(asked[1]) if asked else None)
        taken = self.faults and (asked or self.faults[0] in self.always)
        fault = self.faults.pop(0) if taken else ""
        content = read()
        start, stop = (
            (int(asked[1]), min(int(asked[2]) + 1, len(content))) if asked else (0, len(content))
        )
        body = content[start:stop]
        status = 206 if asked else 200
        if asked and start >= len(content):
            body = b""
            status = 416
        if fault == "200":
            body = content
            status = 200

        with contextlib.suppress(ConnectionError):  # who asked has given up
            if fault.isdigit() and fault != "200":
                request.send_error(int(fault))
                return

            if asked:
                self.served.append((name, start, stop))
            part = f"bytes {start}-{stop - 1}/{len(content)}" if status != 200 else ""
            version = f'"{hashlib.sha256(content).hexdigest()}"' if self._versions else ""
            self._send(request, name, fault, status, {"Content-Range": part, "ETag": version}, body)

    def _send(self, request, name, fault, status, headers, body):
        request.close_connection = request.close_connection or fault in (
            *_CUT,
            "garbage",
            "hang up",
        )
        if fault == "hang up":
            return
        if fault == "garbage":
            request.wfile.write(b"\x00\x01 what is this\r\n\r\n")
            return

        if fault == "moved":
            status = 302
            headers = {"Location": f"/moved/{name}"}
            body = b""

        body = _CHANGES.get(fault, bytes)(body)
        request.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            if value:
                request.send_header(key, value)

        request.end_headers()
        half = len(body) // 2 if fault in _CUT else len(body)
        request.wfile.write(body[:half])
        if fault == "stall":
            self.released.wait(60)
        for number in range(half, len(body) if fault == "drip" else half):
            if self.released.wait(0.01):
                break
            request.wfile.write(body[number : number + 1])


class ShardServer(RangeSite):
    """Serves the files of a folder as `/set/`, and as `/moved/`; faults are taken by any request.

    `hold(name, first byte of the range)` is called before each answer and may wait.
    """

    always = (
        "",
        "500",
        "503",
        "416",
        "200",
        "short",
        "long",
        "flip",
        *_CUT,
        "garbage",
        "hang up",
        "moved",
    )

    def __init__(self, folder):
        super().__init__({file.name: file for file in folder.iterdir()}, versions=False)
        pages = self.site.pages.items()
        self.site.pages = {
            f"/{place}{path}": answer for place in ("set", "moved") for path, answer in pages
        }
        self.asked = []
        self.hold = lambda name, start: None

    @property
    def url(self):
        return f"{self.site.url}set"

    @property
    def ranges(self):
        return [(start, stop) for _, start, stop in self.served]

    def _begin(self, name, start):
        self.asked.append(name)
        self.hold(name, start)
        return self.files[name].read_bytes
