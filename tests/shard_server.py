"""A web server on the loopback interface that serves a shard set with ranges, and misbehaves as told."""

import contextlib
import re
import threading

from tests.loopback_site import Site


class ShardServer:
    """Serves a folder as `/set/`; `faults` are taken one a request before it behaves, the empty one is none.

    500 · 503 · 416: that status; 200: the whole object in place of the range; short: an object that ends early; cut:
    the connection is closed in the middle; garbage: no HTTP; flip: a wrong bit; stall: half of it, then nothing until
    `released`; drip: a byte now and then; moved: a redirect; long: a byte too many; hang up: no answer. `hold(name,
    first byte of the range)` is called before each answer and may wait.
    """

    def __init__(self, folder):
        self.faults = []
        self.asked = []
        self.ranges = []
        self.released = threading.Event()
        self.hold = lambda name, start: None
        pages = {}
        for file in folder.iterdir():
            pages[f"/set/{file.name}"] = pages[f"/moved/{file.name}"] = self._answer(file)
        self.site = Site(pages)

    @property
    def url(self):
        return f"{self.site.url}set"

    def _answer(self, file):
        def answer(request):
            self.asked.append(file.name)
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers.get("Range", ""))
            self.hold(file.name, int(asked[1]) if asked else None)
            fault = self.faults.pop(0) if self.faults else ""
            content, status, part = file.read_bytes(), 200, ""
            if asked and fault != "200":
                start, stop = int(asked[1]), int(asked[2]) + 1
                self.ranges.append((start, stop))
                part = f"bytes {start}-{min(stop, len(content)) - 1}/{len(content)}"
                content, status = content[start:stop], 206
            with contextlib.suppress(ConnectionError):  # who asked has given up
                self._send(request, fault, status, content, part, file.name)

        return answer

    def _send(self, request, fault, status, content, part, name):
        request.close_connection = request.close_connection or fault in ("garbage", "cut", "stall", "drip", "hang up")
        if fault == "hang up":
            return
        if fault == "garbage":
            request.wfile.write(b"\x00\x01 what is this\r\n\r\n")
            return
        if fault in ("500", "503", "416"):
            request.send_error(int(fault))
            return
        if fault == "short":
            content = content[:-1]
        if fault == "long":
            content += b"\0"
        request.send_response(302 if fault == "moved" else status)
        if fault == "moved":
            request.send_header("Location", f"/moved/{name}")
        elif part:
            request.send_header("Content-Range", part)
        request.send_header("Content-Length", "0" if fault == "moved" else str(len(content)))
        request.end_headers()
        if fault == "moved":
            return
        if fault == "flip":
            content = bytes([content[0] ^ 1]) + content[1:]
        half = len(content) // 2
        request.wfile.write(content[:half] if fault in ("cut", "stall", "drip") else content)
        if fault == "stall":
            self.released.wait(60)
        for number in range(half, len(content) if fault == "drip" else half):
            if self.released.wait(0.01):
                break
            request.wfile.write(content[number : number + 1])
