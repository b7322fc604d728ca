"""An S3 server, and a link to it that delays and fails, for the tests of a module."""

from __future__ import annotations

import pytest

from benchmarks.storage.link import Link
from benchmarks.storage.s3_server import environment, s3_server
from mxtrain.data.storage import filesystems, s3_requests


@pytest.fixture(scope="module")
def server():
    with s3_server() as port:
        yield port


@pytest.fixture
def link(server, tmp_path, monkeypatch):
    """A link of this test's own, which clients of S3 take for the store."""
    with Link(server) as running:
        for name, value in environment(running.port, tmp_path / "cache").items():
            monkeypatch.setenv(name, value)
        _forget_clients()
        yield running
        _forget_clients()


def _forget_clients():
    import s3fs

    filesystems.filesystem.cache_clear()
    s3_requests.client.cache_clear()
    s3fs.S3FileSystem.clear_instance_cache()
