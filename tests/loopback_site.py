"""A web site on the loopback interface for tests: answers by path, and the list of what was asked."""

import contextlib
import io
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, dict[str, str], bytes]
HTML = {"Content-Type": "text/html; charset=utf-8"}


def page(*links, text="A page of some words."):
    anchors = "".join(f'<a href="{link}">to {link}</a>' for link in links)
    return 200, HTML, f"<html><body><p>{text}</p>{anchors}</body></html>".encode()


class Site:
    """A site by path: an answer, or a function that writes to the socket itself."""

    def __init__(self, pages):
        self.pages = pages
        self.asked = []
        self.url = ""
        self.protocol = "HTTP/1.0"
        self.connections = 0

    @contextlib.contextmanager
    def running(self):
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = site.protocol

            def setup(self):
                super().setup()
                site.connections += 1

            def do_HEAD(self):
                real = self.wfile
                self.do_GET()
                self.wfile = real

            def end_headers(self):
                super().end_headers()
                if self.command == "HEAD":
                    self.wfile = io.BytesIO()  # who answers writes a body for nobody

            def do_GET(self):
                site.asked.append(self.path)
                answer = site.pages.get(self.path, (404, HTML, b"<a href=/never>none</a>"))
                if callable(answer):
                    answer(self)
                    return
                status, headers, body = answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

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
