"""An S3 server, and a link to it that delays and fails, for the tests of a module."""

from __future__ import annotations

import pytest

from benchmarks.storage.link import Link
from benchmarks.storage.s3_server import environment, s3_server
from mxtrain.data.storage import filesystems


@pytest.fixture(scope="module")
def server():
    with s3_server() as port:
        yield port


@pytest.fixture
def link(server, tmp_path, monkeypatch):
    """A link of this test's own, which clients of S3 take for the store."""
    import s3fs

    with Link(server) as running:
        for name, value in environment(running.port, tmp_path / "cache").items():
            monkeypatch.setenv(name, value)
        filesystems.filesystem.cache_clear()
        s3fs.S3FileSystem.clear_instance_cache()
        yield running
        filesystems.filesystem.cache_clear()
        s3fs.S3FileSystem.clear_instance_cache()
