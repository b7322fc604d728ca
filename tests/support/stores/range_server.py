"""A server of a folder's files over HTTP, with ranges and tags, in a thread; it can be made to fail."""

from __future__ import annotations

import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class RangeServer:
    """Files of `folder` at `address`; what clients asked for is in `requests`, as (method, name, range)."""

    def __init__(self, folder):
        self.folder, self.requests = folder, []
        self.statuses = {}  # the status that is answered for a name
        self.num_cut = 0  # that many answers end in the middle
        self.num_failing = 0  # that many answers are 503
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                server.answer(self, has_body=False)

            def do_GET(self):
                server.answer(self, has_body=True)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()

    def ranges(self, name):
        """The ranges of a file that were asked for."""
        return [asked for method, path, asked in self.requests if method == "GET" and path == name]

    def answer(self, handler, has_body):
        name, asked = handler.path.lstrip("/"), handler.headers.get("Range")
        self.requests.append((handler.command, name, asked))
        path = self.folder / name
        status = self.statuses.get(name) or (200 if path.is_file() else 404)
        if has_body and self.num_failing:
            self.num_failing, status = self.num_failing - 1, 503
        content = path.read_bytes() if status == 200 else b""
        tag = f'"{hashlib.md5(content).hexdigest()}"'
        if status == 200 and handler.headers.get("If-Match", tag) != tag:
            status, content = 412, b""
        if status == 200 and asked:
            first, last = map(int, re.fullmatch(r"bytes=(\d+)-(\d+)", asked).groups())
            content, status = content[first : last + 1], 206
        handler.send_response(status)
        handler.send_header("ETag", tag)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if has_body and self.num_cut and content:
            self.num_cut -= 1
            content, handler.close_connection = content[: len(content) // 2], True
        if has_body:
            handler.wfile.write(content)
