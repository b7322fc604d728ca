"""The job's secret as a key and a certificate: whoever can show them has the secret.

Owns the TLS contexts of both ends of a connection. All processes of a job derive the same Ed25519 key and the same
certificate, signed by itself, and trust no other. A connection begins with TLS 1.3 between the two, which proves each
end to the other, and whose keys are forgotten at its end: a recorded session cannot be played again or read later.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import hashlib
import os
import ssl

SALT = b"mxtrain gateway 1"
# What an attempt at guessing costs who has seen a certificate: 16 MB of memory and some 50 ms.
SCRYPT = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}
BEGIN, END = datetime.datetime(2000, 1, 1), datetime.datetime(9999, 1, 1)  # clocks of hosts may be wrong


@dataclasses.dataclass(frozen=True)
class Credentials:
    """The TLS contexts of a job's processes, for the end that accepts a connection and for the one that opens it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@functools.lru_cache(maxsize=2)
def of_secret(secret: str) -> Credentials:
    """Return the TLS contexts for `secret`; takes a tenth of a second the first time."""
    pem = _key_and_certificate(hashlib.scrypt(secret.encode(), salt=SALT, **SCRYPT))
    return Credentials(_context(ssl.PROTOCOL_TLS_SERVER, pem), _context(ssl.PROTOCOL_TLS_CLIENT, pem))


def _key_and_certificate(seed: bytes) -> bytes:
    """Return the key that `seed` is, and its certificate, as PEM: the same bytes for the same seed."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(seed)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "mxtrain")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, BEGIN, END)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private = key.private_bytes(pem, pkcs8, serialization.NoEncryption())
    return private + builder.sign(key, None).public_bytes(pem)


def _context(protocol: int, pem: bytes) -> ssl.SSLContext:
    """Return a context that shows the certificate in `pem`, with its key, and trusts that certificate alone."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # who has the key is of the job, on whatever host
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=pem[pem.index(b"-----BEGIN CERTIFICATE") :].decode())
    file = os.memfd_create("credentials")  # Python's ssl takes a key from a file alone: one that is in memory
    try:
        os.write(file, pem)
        context.load_cert_chain(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    return context
