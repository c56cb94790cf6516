"""A web site on the loopback interface for tests, with a function for each path."""

import contextlib
import io
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Site:
    """A site by path: functions that write their answers to the request.

    One more for all other paths.
    """

    def __init__(self, pages, other=lambda request: request.send_error(404)):
        self.pages = pages
        self._other = other
        self.url = ""

    @contextlib.contextmanager
    def running(self):
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                real = self.wfile
                self.do_GET()
                self.wfile = real

            def end_headers(self):
                super().end_headers()
                if self.command == "HEAD":
                    self.wfile = io.BytesIO()  # who answers writes a body for nobody

            def do_GET(self):
                site.pages.get(self.path, site._other)(self)

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}/"

        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
