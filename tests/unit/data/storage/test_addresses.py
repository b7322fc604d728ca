from __future__ import annotations

import pickle

import pytest

from mxtrain import config
from mxtrain.config.checks import run_checks
from mxtrain.config.components import import_path
from mxtrain.config.values import addresses
from mxtrain.config.values.addresses import Address
from mxtrain.core.errors import UsageError


@pytest.mark.parametrize(
    "text", ["s3://bucket/a/train.rec", "https://host:80/a.rec", "memory://a.rec", "s3://b/train-*.rec"]
)
def test_an_address_keeps_its_text(text):
    assert addresses.is_address(text)
    assert str(Address(text)) == f"{Address(text)}" == text
    assert pickle.loads(pickle.dumps(Address(text))) == Address(text)


def test_addresses_have_the_parts_of_paths():
    address = Address("s3://bucket/a/train.rec")
    assert (address.name, address.suffix, address.scheme) == ("train.rec", ".rec", "s3")
    assert str(address.with_suffix(".idx")) == "s3://bucket/a/train.idx"
    assert str(address.parent / "b") == "s3://bucket/a/b"


@pytest.mark.parametrize("text", ["a.rec", "/a/b.rec", "module:callable", "file:///a.rec", "C:/a.rec", ""])
def test_paths_are_no_addresses(text):
    assert not addresses.is_address(text)


def test_a_file_address_is_a_path():
    assert addresses.local("file:///a/b.rec") == "/a/b.rec"
    assert addresses.local("a/b.rec") == "a/b.rec"


def test_an_address_is_no_import_path():
    assert not import_path.is_import_path("s3://bucket/a.rec")


@pytest.mark.parametrize(
    "text",
    [
        "https://me:hunter2@host/a.rec",
        "https://host/a.rec?X-Amz-Signature=hunter2",
        "s3://me:hunter2@b/a.rec",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_repeated(text, tmp_path):
    with pytest.raises(UsageError, match="--train") as refused:
        run_checks.check(config.parse(["--train", text, "--out", str(tmp_path)]))
    assert "hunter2" not in str(refused.value)


def test_an_unknown_scheme_is_refused():
    with pytest.raises(UsageError, match=r"--val bucket://a\.rec: no store"):
        addresses.parse("--val", "bucket://a.rec")


@pytest.mark.parametrize(
    "text",
    [
        "cannot reach https://me:hunter2@host/x",
        "GET https://host/x?X-Amz-Signature=hunter2&a=b failed",
        "Authorization: hunter2",
        "aws_secret_access_key=hunter2",
    ],
)
def test_a_librarys_message_loses_credentials(text):
    assert "hunter2" not in addresses.without_secrets(text)
