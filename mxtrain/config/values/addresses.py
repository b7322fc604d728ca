"""Addresses of files in object stores and behind HTTP, `s3://bucket/key`, beside paths of this machine.

Owns telling one from the other, and what an address may not hold. Reads nothing: `data/storage/` does.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath, PurePosixPath
from urllib.parse import urlsplit

from mxtrain.core.errors import UsageError

# Of fsspec's protocols those of whole files by name; others wrap one another (`zip::`) or are no stores.
SCHEMES = (
    *("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "hdfs", "webhdfs", "http", "https"),
    *("oss", "oci", "hf", "sftp", "smb", "memory"),
)
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://(.*)", re.DOTALL)
_LOCAL = "file"
_SECRETS = (
    (re.compile(r"(://)[^/\s@]*@"), r"\1"),
    (re.compile(r"\?[^\s'\"]*"), ""),
    (
        re.compile(r"(?i)((?:authorization|token|secret|password|signature|credential)\S*?[=:]\s*)\S+"),
        r"\1...",
    ),
)


class Address(PurePosixPath):
    """The address of a file that is not on this machine; its parts are those of a path."""

    def __str__(self) -> str:
        return re.sub(r"^([^/:]+):/+", r"\1://", super().__str__())

    def __reduce__(self) -> tuple[type[Address], tuple[str]]:
        return Address, (str(self),)

    @property
    def scheme(self) -> str:
        """The protocol, such as s3."""
        return str(self).partition("://")[0]


def is_address(text: object) -> bool:
    """Return whether a text names a file by an address, `SCHEME://...`, and no path of this machine."""
    match = _ADDRESS.fullmatch(str(text))
    return match is not None and match[1] != _LOCAL


def local(text: str) -> str:
    """Return the path in a `file://` address; any other text as it is."""
    match = _ADDRESS.fullmatch(text)
    return match[2] if match is not None and match[1] == _LOCAL and match[2].startswith("/") else text


def parse(flag: str, text: str) -> Address:
    """Return an address; UsageError, which does not repeat a password, where it is none that `flag` can have."""
    scheme = text.partition("://")[0]
    refuse(flag, text)
    if scheme not in SCHEMES:
        raise UsageError(
            f"{flag} {text}: no store is reached by {scheme}://; give one of {', '.join(SCHEMES)}"
        )
    return Address(text)


def path(text: str) -> PurePath:
    """Return what a text names: an address, or a path of this machine."""
    return parse("", text) if is_address(text) else Path(local(text))


def refuse(flag: str, text: str) -> None:
    """Refuse an address with a password or a signature in it: flags are kept in records, pages and checkpoints."""
    split = urlsplit(text)
    if "@" in split.netloc or (split.scheme in ("http", "https") and split.query):
        raise UsageError(
            f"{flag} {split.scheme}://...:".lstrip()
            + " has a password, a key or a query in it, which records and checkpoints "
            "would keep; leave it out, and give credentials as the store's own tools take them (environment, "
            "~/.aws, ~/.netrc)"
        )


def without_secrets(text: str) -> str:
    """Return a library's message without passwords, signatures and queries of addresses in it."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text
