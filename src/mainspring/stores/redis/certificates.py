"""TLS certificates of a Redis store: the authority, certificate and key files that its URL names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from ssl import SSLContext, SSLError, create_default_context

from ...errors import BadSetting

FILES = ("ca", "cert", "key")


def context(files: Mapping[str, str], shown: str) -> SSLContext:
    """The TLS context of these files. Raises BadSetting, which names a file that cannot be used."""
    for name, file in files.items():
        try:
            Path(file).open("rb").close()
        except OSError as error:
            raise BadSetting(f"{name}={file} in store URL {shown!r}: {error.strerror}") from None
    try:
        made = create_default_context(cafile=files.get("ca"))
    except SSLError as error:
        raise BadSetting(
            f"ca={files.get('ca')} in store URL {shown!r} has no certificate of an authority: {error}"
        ) from None
    if "cert" in files:
        _load_certificate(made, files, shown)
    return made


def _load_certificate(made: SSLContext, files: Mapping[str, str], shown: str) -> None:
    cert, key = files["cert"], files.get("key")
    try:
        made.load_cert_chain(cert, key, password="")  # without it OpenSSL would prompt at the terminal
    except SSLError as error:
        where = f"and key={key} its key" if key else "and its key (or name that with key=file)"
        raise BadSetting(
            f"cert={cert} in store URL {shown!r} needs a certificate {where}, without a pass phrase: {error}"
        ) from None
