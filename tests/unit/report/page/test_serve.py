"""The server of a live page: for this machine alone, by GET alone, without files; and it moves on with its runs."""

from __future__ import annotations

import http.client
import json
import threading
from pathlib import Path
from typing import Any, Iterator

import pytest

from mxtrain.core.errors import UsageError
from mxtrain.report import history
from mxtrain.report.page import serve
from tests.support.jobs import recorded_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return recorded_run.write(tmp_path / "a", steps=20)


@pytest.fixture
def port(folder: Path) -> Iterator[int]:
    with serve.server([history.read(folder)], 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def ask(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def news(port: int, known: str = "") -> list[Any]:
    status, content, _ = ask(port, f"/data.json?known={known}")
    assert status == 200
    found: list[Any] = json.loads(content)["runs"]
    return found


def test_a_page_and_its_data_are_all_there_is(port: int) -> None:
    status, content, headers = ask(port, "/")
    assert status == 200 and content.startswith(b"<!DOCTYPE html>") and b"connect-src 'self'" in content
    assert (
        headers["x-content-type-options"] == "nosniff"
        and "frame-ancestors" in headers["content-security-policy"]
    )
    for path in (
        "/metrics.jsonl",
        "/../config.yaml",
        "/%2e%2e/config.yaml",
        "//etc/passwd",
        "/data.json/../x",
    ):
        assert ask(port, path)[0] == 404, path
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(port, "/", method)[0] == 501, method


@pytest.mark.parametrize(
    "host",
    [
        "example.com",
        "example.com:{port}",
        "",
        "localhost.x:{port}",
        "x.localhost",
        "127.0.0.1.x",
        "localhost:x",
    ],
)
def test_a_name_that_was_made_to_point_here_is_refused(port: int, host: str) -> None:
    status, content, _ = ask(port, "/data.json", Host=host.format(port=port))
    assert status == 421 and b"runs" not in content


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost", "[::1]"])
def test_this_machine_is_answered_by_each_of_its_names_also_through_a_tunnel(port: int, name: str) -> None:
    for host in (f"{name}:{port}", name, f"{name}:{port - 1}"):
        assert ask(port, "/data.json", Host=host)[0] == 200, host


def test_head_is_get_without_its_content(port: int) -> None:
    status, content, headers = ask(port, "/", "HEAD")
    assert status == 200 and not content and int(headers["content-length"]) > 1000
    assert headers["content-type"] == "text/html; charset=utf-8"
    assert ask(port, "/metrics.jsonl", "HEAD")[:2] == (404, b"")
    assert ask(port, "/", "HEAD", Host="example.com")[:2] == (421, b"")


def test_only_what_has_changed_is_sent(port: int, folder: Path) -> None:
    (before,) = news(port)
    assert news(port, before["version"]) == [None]
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "train", "step": 21, "epoch": 5, "loss": 0.5}) + "\n")
    (after,) = news(port, before["version"])
    assert after["curves"][0]["lines"][0]["step"][-1] == 21
    assert news(port, after["version"]) == [None]


def test_a_port_that_is_taken_is_refused(port: int, folder: Path) -> None:
    with pytest.raises(UsageError, match=f"--serve {port}: cannot listen"):
        serve.server([history.read(folder)], port)
