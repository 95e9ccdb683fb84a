"""Secrets hidden from data and texts that leave the engine. Pure.

Better one word too many is hidden than one secret told. Mask first, truncate after: half a secret has no telling name.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from typing import Any

MASK = "***"
# Data nested deeper than this is hidden whole.
DEPTH = 100

# Parts of a name that make its value a secret, and words that do so only if the name ends with them.
_PART = (
    r"(?i:passw(?:or)?d|passphrase|secret|token|authorization|cookie|credential|session[_-]?id"
    r"|(?:api|access|private|signing|encryption)[_-]?key|connection[_-]?string)"
)
_WORD = r"(?:(?<![A-Za-z])(?i:dsn|pwd|pass|auth|jwt)|(?<=[a-z])(?:Dsn|DSN|Pwd|Pass|Auth|Jwt|JWT))(?![A-Za-z0-9_-])"
_NAME = re.compile(f"{_PART}|{_WORD}")
# The same in a text, as name=value, name: value or "name": "value". Every repeat is bounded, whatever the text.
_PAIR = re.compile(
    rf"""((?:{_PART}[\w-]{{0,40}})|{_WORD})(\\{{0,8}}["']|)[\]]?[ \t]{{0,20}}(?:=[=>]?|:=?)[ \t]{{0,20}}"""
)
_FLAG = re.compile(
    rf"(?<![\w-])(--?[\w-]{{0,40}}?(?:{_PART}|pass)[\w-]{{0,40}}[ \t]{{1,20}})(?!-)"
    r"([^\s\"']+|\"[^\"]*\"?|'[^']*'?)"
)
_URL = re.compile(r"(?i)(\bhttps?|\bwss?|)(://[^\s/?#:@\"'<>]{0,256}:)([^\s\"'<>]{1,512})@")
_BEARER = re.compile(r"(?i)\b(bearer[ \t]{1,20})([^\s\"',;]+)")
_BASIC = re.compile(r"(?i)\b(basic[ \t]{1,20})([A-Za-z0-9+/]{4,2048}={0,2})")
_SHAPES = re.compile(
    r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"  # a JSON web token
    r"|\bms[kt]_[0-9a-z]{1,20}_[0-9A-Za-z]+"  # an API key of our own, or the token of a first start
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_QUOTED = re.compile(r"""[bru]?(\\{0,8})(["'])""")
_BARE, _BARE_JSON, _LINE = re.compile(r"[^\s&]*"), re.compile(r"[^\s,}\]]*"), re.compile(r"[^\r\n\"']*")
_OPEN, _CLOSE = "{[(", "}])"
# What no secret looks like; a masked text is masked again without a change.
_PLAIN = frozenset({"null", "None", "true", "false", "True", "False", "", MASK})


def mask(value: Any) -> Any:
    """A copy of JSON-able data in which secrets are "***": whole values under telling names, parts of other texts."""
    return _mask(value, DEPTH)


def is_secret(name: str) -> bool:
    """Whether a value under this name is to be hidden: password, apiKey, X-Auth-Token, redis_dsn."""
    return _NAME.search(name) is not None


def mask_text(text: str) -> str:
    """The text without passwords in URLs, values of telling names, bearer tokens and private keys."""
    text = _SHAPES.sub(MASK, text)
    if "@" in text:
        text = _URL.sub(_without_password, text)
    text = _BEARER.sub(rf"\1{MASK}", text)
    text = _BASIC.sub(_without_credentials, text)
    if "-" in text:
        text = _FLAG.sub(rf"\1{MASK}", text)
    return _without_values(text)


def _mask(value: Any, depth: int) -> Any:
    match value:
        case str():
            return mask_text(value)
        case Mapping() | list() | tuple() | set() | frozenset() if not depth:
            return MASK
        case Mapping():
            return {_key(key): _under(str(key), inner, depth - 1) for key, inner in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_mask(inner, depth - 1) for inner in value]
    return value


def _key(key: Any) -> Any:
    return mask_text(key) if isinstance(key, str) else key


def _under(name: str, value: Any, depth: int) -> Any:
    if not is_secret(name):
        return _mask(value, depth)
    if value is None or isinstance(value, bool) or value == "":
        return value
    return value if _is_count(name, value) else MASK


def _is_count(name: str, value: Any) -> bool:
    """max_tokens=100 counts them; a token is none."""
    return name.lower().endswith("tokens") and str(value).isdecimal()


def _without_password(match: re.Match[str]) -> str:
    scheme, user, password = match.groups()
    # http://host:8080/people/a@b.c has a port there.
    if scheme and re.match(r"\d{1,5}[/?#]", password):
        return match[0]
    return f"{scheme}{user}{MASK}@"


def _without_credentials(match: re.Match[str]) -> str:
    try:
        return match[1] + MASK if b":" in binascii.a2b_base64(match[2]) else match[0]
    except binascii.Error:
        return match[0]


def _without_values(text: str) -> str:
    """Every value of a telling name hidden, quotes kept, so that JSON stays JSON."""
    parts, at = [], 0
    while (found := _PAIR.search(text, at)) is not None:
        name, begin = found[1], found.end()
        end, shown = _value(text, begin, name, quoted=found[2])
        parts += [text[at:begin], shown]
        at = max(end, begin)
    return "".join([*parts, text[at:]])


def _value(text: str, begin: int, name: str, quoted: str) -> tuple[int, str]:
    """Where the value that begins there ends, and what to show for it."""
    if (quote := _QUOTED.match(text, begin)) is not None:
        end = _closing(text, quote.end(), quote[1], quote[2])
        hidden = text[quote.end() : end] and MASK
        return end, quote[0] + hidden
    if text[begin : begin + 1] in tuple(_OPEN):
        return _bracket(text, begin), f"{quoted}{MASK}{quoted}"
    bare = _LINE if name.lower().endswith(("authorization", "cookie")) else _BARE_JSON if quoted else _BARE
    end = _end(bare, text, begin)
    value = text[begin:end]
    if value.rstrip(",;)") in _PLAIN or _is_count(name, value.rstrip(",;)")):
        return end, value
    return end, f"{quoted}{MASK}{quoted}"


def _end(pattern: re.Pattern[str], text: str, begin: int) -> int:
    found = pattern.match(text, begin)
    return found.end() if found else begin


def _closing(text: str, begin: int, escape: str, quote: str) -> int:
    """Where the quoted value ends: before its closing quote, or with the text if that was cut off."""
    at = begin
    while (at := text.find(quote, at)) >= 0:
        before = 0
        while at - before > begin and text[at - before - 1] == "\\":
            before += 1
        if escape and before == len(escape):
            return at - before
        if not escape and before % 2 == 0:
            return at
        at += 1
    return len(text)


def _bracket(text: str, begin: int) -> int:
    """Just beyond the bracket that closes the one there; the end of the text if none does."""
    depth, at, inside = 0, begin, ""
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif inside:
            inside = "" if char == inside else inside
        elif char in "\"'":
            inside = char
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if not depth:
                return at + 1
        at += 1
    return len(text)
