"""Canonical JSON, digests and unambiguous keys.

Two values that mean the same must have the same bytes, or a digest over them says nothing. JSON is
canonicalised as RFC 8785 prescribes; keys made of several parts carry the length of each part, since a
separator can occur inside a part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import rfc8785


def canonical_json(value: object) -> bytes:
    """The RFC 8785 form of ``value``.

    Raises
    ------
    ValueError
        For NaN, infinities, integers beyond 2**53 and types that JSON does not have.
    """
    try:
        return rfc8785.dumps(value)  # type: ignore[arg-type]  # the library checks the type itself, and we want its error
    except rfc8785.CanonicalizationError as error:
        raise ValueError(f"not representable as canonical JSON: {error}") from error


def digest_bytes(data: bytes) -> str:
    """``sha256:`` and the hexadecimal SHA-256 of ``data``."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_text(text: str) -> str:
    """Digest of the UTF-8 form; lone surrogates, which UTF-8 refuses, are kept apart rather than lost."""
    return digest_bytes(text.encode("utf-8", errors="surrogatepass"))


def digest_json(value: object) -> str:
    """Digest of the canonical form of ``value``."""
    return digest_bytes(canonical_json(value))


def length_prefixed(parts: Iterable[bytes]) -> bytes:
    """Join ``parts`` so that different lists of parts never give the same bytes."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)
