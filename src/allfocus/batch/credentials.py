"""Credentials of a cluster on this machine, made for one run and kept in memory: a key, and a certificate by itself.

Whoever can speak to a Dask scheduler can run code in its workers, and a port on this machine is open to every program
and user on it. With these, the scheduler and its workers speak TLS, and only to those who have the same key: the
processes of this run. Python's standard library checks certificates but cannot make them, hence the page below:
elliptic curve P-256 (FIPS 186-4), ECDSA with SHA-256, X.509 version 3 (RFC 5280) in DER.
"""

import base64
import datetime
import hashlib
import secrets
from dataclasses import dataclass

PRIME = 2**256 - 2**224 + 2**192 + 2**96 - 1
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
BASE = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
Point = tuple[int, int] | None

ECDSA_WITH_SHA256 = bytes.fromhex("06082a8648ce3d040302")
EC_PUBLIC_KEY = bytes.fromhex("06072a8648ce3d0201")
P256 = bytes.fromhex("06082a8648ce3d030107")
COMMON_NAME = bytes.fromhex("0603550403")
BASIC_CONSTRAINTS, KEY_USAGE, SUBJECT_KEY = (bytes.fromhex(f"0603551d{number}") for number in ("13", "0f", "0e"))
DAYS = 365


@dataclass(frozen=True)
class Credentials:
    """A key and its certificate, as text (PEM)."""

    key: str
    certificate: str

    def __repr__(self) -> str:
        return "Credentials(made for this run)"


def make_credentials() -> Credentials:
    """A new key with a certificate that it has signed itself, valid for a year.

    Example:
        >>> make_credentials().certificate.splitlines()[0]
        '-----BEGIN CERTIFICATE-----'
    """
    private = 1 + secrets.randbelow(ORDER - 1)
    public = _encode_point(_multiply(private, BASE))
    body = _certificate_body(public)
    algorithm = _sequence(ECDSA_WITH_SHA256)
    certificate = _sequence(body, algorithm, _bits(_sign(body, private)))
    key = _sequence(
        _integer(1),
        _tagged(0x04, private.to_bytes(32, "big")),
        _tagged(0xA0, P256),
        _tagged(0xA1, _bits(public)),
    )
    return Credentials(_as_text("EC PRIVATE KEY", key), _as_text("CERTIFICATE", certificate))


def _certificate_body(public: bytes) -> bytes:
    now = datetime.datetime.now(datetime.UTC)
    # A clock that is a little behind, as of another process on another core, must not find it not yet valid.
    times = (now - datetime.timedelta(hours=1), now + datetime.timedelta(days=DAYS))
    name = _sequence(_tagged(0x31, _sequence(COMMON_NAME, _tagged(0x0C, b"allfocus"))))
    extensions = _sequence(
        _sequence(BASIC_CONSTRAINTS, _tagged(0x01, b"\xff"), _tagged(0x04, _sequence(_tagged(0x01, b"\xff")))),
        _sequence(KEY_USAGE, _tagged(0x01, b"\xff"), _tagged(0x04, bytes.fromhex("03020284"))),
        _sequence(SUBJECT_KEY, _tagged(0x04, _tagged(0x04, hashlib.sha1(public, usedforsecurity=False).digest()))),
    )
    return _sequence(
        _tagged(0xA0, _integer(2)),
        _integer(1 + secrets.randbits(120)),
        _sequence(ECDSA_WITH_SHA256),
        name,
        _sequence(*(_tagged(0x18, time.strftime("%Y%m%d%H%M%SZ").encode()) for time in times)),
        name,
        _sequence(_sequence(EC_PUBLIC_KEY, P256), _bits(public)),
        _tagged(0xA3, extensions),
    )


def _sign(message: bytes, private: int) -> bytes:
    digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
    while True:
        once = 1 + secrets.randbelow(ORDER - 1)
        point = _multiply(once, BASE)
        first = point[0] % ORDER if point else 0
        second = pow(once, -1, ORDER) * (digest + first * private) % ORDER
        if first and second:
            return _sequence(_integer(first), _integer(second))


def _multiply(number: int, point: Point) -> Point:
    total: Point = None
    while number:
        if number & 1:
            total = _add(total, point)
        point = _add(point, point)
        number >>= 1
    return total


def _add(one: Point, two: Point) -> Point:
    if one is None or two is None:
        return two if one is None else one
    if one[0] == two[0]:
        if (one[1] + two[1]) % PRIME == 0:
            return None
        slope = (3 * one[0] ** 2 - 3) * pow(2 * one[1], -1, PRIME) % PRIME
    else:
        slope = (two[1] - one[1]) * pow(two[0] - one[0], -1, PRIME) % PRIME
    x = (slope**2 - one[0] - two[0]) % PRIME
    return x, (slope * (one[0] - x) - one[1]) % PRIME


def _encode_point(point: Point) -> bytes:
    if point is None:
        raise ValueError("the point at infinity is no key")
    return b"\x04" + point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big")


def _tagged(tag: int, body: bytes) -> bytes:
    length = len(body)
    if length < 0x80:
        return bytes([tag, length]) + body
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(size)]) + size + body


def _sequence(*parts: bytes) -> bytes:
    return _tagged(0x30, b"".join(parts))


def _integer(value: int) -> bytes:
    return _tagged(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _bits(body: bytes) -> bytes:
    return _tagged(0x03, b"\x00" + body)


def _as_text(kind: str, data: bytes) -> str:
    text = base64.b64encode(data).decode("ascii")
    lines = "\n".join(text[start : start + 64] for start in range(0, len(text), 64))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n"
