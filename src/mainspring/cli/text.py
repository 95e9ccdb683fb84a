"""Text that is safe to show: no passwords, nothing that steers the terminal."""

from __future__ import annotations

import re

_USERINFO = re.compile(r"(://[^\s:/@]*:)\S*@")
_PARAMETER = re.compile(r"([?&][^\s=&]*(?:password|secret|token)[^\s=&]*=)[^\s&'\"]+", re.IGNORECASE)


def redacted(text: str) -> str:
    """The text with the passwords in its URLs hidden."""
    return _PARAMETER.sub(r"\1***", _USERINFO.sub(r"\1***@", text))


def clean(text: str) -> str:
    """The text with control characters spelled out: job data is anybody's."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else f"\\x{ord(char):02x}" for char in text)


def safe(text: str) -> str:
    return clean(redacted(text))
