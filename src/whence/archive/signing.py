"""Ed25519 keys: making them, signing a seal, checking a signature."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from whence.errors import ArchiveError

# What is signed tells what it is, so that no signature can stand for another.
_SEAL, _HEAD = b"whence seal 1\n", b"whence head 1\n"


def new_key(path: str | os.PathLike[str]) -> str:
    """Make a private key in a file that only its owner can read; its public key, in hex."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    data = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
    except OSError as error:
        raise ArchiveError(f"the key cannot be written to {path}: {error.strerror}") from error
    return public_hex(key)


def load_key(path: str | os.PathLike[str]) -> Any:
    """The private key in a PEM file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(Path(path).read_bytes(), None)
    except OSError as error:
        raise ArchiveError(f"the key {path} cannot be read: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise ArchiveError(f"{path} holds no private key without a password: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ArchiveError(f"{path} holds a key that is not of Ed25519")
    return key


def public_hex(key: Any) -> str:
    """The public key of a private one, in hex."""
    from cryptography.hazmat.primitives import serialization as form

    raw = key.public_key().public_bytes(form.Encoding.Raw, form.PublicFormat.Raw)
    return str(raw.hex())


def sign(key: Any, seal: str) -> str:
    """The signature of a seal's id, in hex."""
    return str(key.sign(_SEAL + bytes.fromhex(seal)).hex())


def sign_head(key: Any, head: bytes) -> str:
    """The signature of what a head file says, in hex."""
    return str(key.sign(_HEAD + head).hex())


def is_signed(public: str, seal: str, signature: str) -> bool:
    """Whether a signature of a seal's id is that of a public key."""
    return _is_signed(public, _SEAL + bytes.fromhex(seal), signature)


def is_head_signed(public: str, head: bytes, signature: str) -> bool:
    """Whether a signature of what a head file says is that of a public key."""
    return _is_signed(public, _HEAD + head, signature)


def _is_signed(public: str, data: bytes, signature: str) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(bytes.fromhex(signature), data)
    except (InvalidSignature, ValueError):
        return False
    return bytes.fromhex(signature).hex() == signature  # it has one spelling
