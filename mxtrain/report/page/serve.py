"""The live page: a server on loopback that shows runs while they go on (docs/adr/0030).

Owns who may ask and for what: this machine alone, by GET or HEAD, the page and its data; no path is a file. The page is
the one that is written to a file, and asks now and then for the runs that have recorded more.
"""

from __future__ import annotations

import json
import re
import threading
import urllib.parse
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Sequence

from mxtrain.core.errors import UsageError
from mxtrain.report.history import History
from mxtrain.report.page import html_page, page_data

ADDRESS = "127.0.0.1"
SILENT_SECONDS = 10.0  # after which a connection that asks nothing is closed
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # the rest is in the page
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class LiveRuns:
    """The data of runs that go on, as it is now; any thread may ask."""

    def __init__(self, histories: Sequence[History]):
        self._histories = histories
        self._lock = threading.Lock()
        self._data: dict[str, Any] = {}

    def data(self) -> dict[str, Any]:
        """Return the data of the page; each run has a `version`, which changes with what is shown of it."""
        with self._lock:
            has_more = [history.read_on() for history in self._histories]
            states = [page_data.state_of(history) for history in self._histories]
            if not self._data or any(has_more) or states != [run["state"] for run in self._data["runs"]]:
                self._data = page_data.page_data(self._histories, is_live=True)
                for run in self._data["runs"]:
                    run["version"] = html_page.version_of(run)
            return {**self._data, "made": page_data.now()}

    def news(self, known: Sequence[str]) -> dict[str, Any]:
        """Return the same, with null for each run whose version is the known one."""
        data = self.data()
        versions = [*known, *[""] * len(data["runs"])]
        runs = [None if run["version"] == version else run for run, version in zip(data["runs"], versions)]
        return {**data, "runs": runs}


def server(histories: Sequence[History], port: int) -> ThreadingHTTPServer:
    """Return a server of these runs that is bound to a port of loopback, any free one for 0."""
    runs = LiveRuns(histories)

    class Handler(BaseHTTPRequestHandler):
        timeout = SILENT_SECONDS
        server_version, sys_version = "mxtrain", ""

        def do_GET(self) -> None:
            if not is_own_name(self.headers.get("Host", "")):
                # A page elsewhere whose name was made to point here would else read the runs.
                self.send_error(HTTPStatus.MISDIRECTED_REQUEST, "ask for 127.0.0.1 or localhost")
                return
            address = urllib.parse.urlsplit(self.path)
            if address.path == "/":
                self._answer("text/html", html_page.page(runs.data()))
            elif address.path == "/data.json":
                known = urllib.parse.parse_qs(address.query).get("known", [""])[0].split(",")
                self._answer("application/json", json.dumps(runs.news(known), allow_nan=False))
            else:
                self.send_error(HTTPStatus.NOT_FOUND)

        do_HEAD = do_GET

        def end_headers(self) -> None:
            for name, value in HEADERS.items():
                self.send_header(name, value)
            super().end_headers()

        def _answer(self, content_type: str, text: str) -> None:
            content = text.encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", f"{content_type}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Say nothing of what was asked: the command's lines are for people."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing of a reader who has gone in the middle of an answer."""

    try:
        return Server((ADDRESS, port), Handler)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"--serve {port}: cannot listen there ({reason}); leave the number out") from None


def is_own_name(host: str) -> bool:
    """Return whether a Host header names this machine as somebody on it does, or at the other end of an ssh tunnel.

    The port may be any, as a tunnel has one of its own, and be left out: no page elsewhere has such a name.
    """
    return re.fullmatch(rf"({re.escape(ADDRESS)}|localhost|\[::1\])(:[0-9]*)?", host.lower()) is not None
