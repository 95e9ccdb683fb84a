"""Masking: secrets are hidden in data and texts that leave the engine. Pure.

It hides too much rather than too little. Mask first, truncate afterwards: half a secret may not be recognised.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Mapping, Sized
from typing import Any

from .bounds import MAX_TEXT_CHARACTERS

MASK = "***"
# The end of the line that replaces the middle of a long text.
CUT_MARK = "characters left out …\n"
# Levels of data. Deeper data is hidden.
MAX_DEPTH = 100
# Parts of one value, and characters in all its texts. Everything beyond is hidden.
MAX_PARTS = 100_000
MAX_CHARACTERS = 2 << 20

# Characters that a pattern scans at a time.
_STEP_CHARACTERS = 64 << 10
# More characters than any pattern needs to recognise the beginning of a match.
_HEAD_CHARACTERS = 1024

# Parts of a name that make its value a secret, and words that do so only at the end of a name.
_PART = (
    r"(?i:passw(?:or)?d|passphrase|secret|token|authorization|cookie|credential|session[_-]?id"
    r"|(?:api|access|private|signing|encryption)[_-]?key|connection[_-]?string)"
)
_WORD = r"(?:(?<![A-Za-z])(?i:dsn|pwd|pass|auth|jwt)|(?<=[a-z])(?:Dsn|DSN|Pwd|Pass|Auth|Jwt|JWT))(?![A-Za-z0-9_-])"
# The first letters of both: this look-ahead skips most of a text, five times as fast.
_BEGIN = "(?=[acdejpstACDEJPST])"
_NAME = re.compile(f"{_BEGIN}(?:{_PART}|{_WORD})")
# The same in a text, as name=value, name: value or "name": "value". Every repeat is bounded or possessive, and no two
# starts scan far over the same characters: each pattern is linear in the length of any text.
_PAIR = re.compile(
    rf"""{_BEGIN}((?:{_PART}[\w-]{{0,40}}+)|{_WORD})(\\{{0,8}}["']|)[\]]?[ \t]{{0,20}}(?:=[=>]?|:=?)[ \t]{{0,20}}"""
)
_FLAG = re.compile(
    rf"(?<![\w-])(--?[\w-]{{0,40}}?(?:{_PART}|pass)[\w-]{{0,40}}+[ \t]{{1,20}})(?!-)"
    r"([^\s\"']+|\"[^\"]*\"?|'[^']*'?)"
)
_URL = re.compile(r"(?i)(\bhttps?|\bwss?|)(://[^\s/?#:@\"'<>]{0,256}:)")
_PORT = re.compile(r"\d{1,5}[/?#]")
_URL_END = re.compile(r"[\s\"'<>]")
_MAX_PASSWORD_CHARACTERS = 512
_BEARER = re.compile(r"(?i)\b(bearer[ \t]{1,20})([^\s\"',;]+)")
_BASIC = re.compile(r"(?i)\b(basic[ \t]{1,20})([A-Za-z0-9+/]{4,2048}={0,2})")
# An API key of Mainspring, or the sign-in token of a first start.
_OWN_KEY = re.compile(r"\bms[kt]_[0-9a-z]{1,20}_[0-9A-Za-z]+")
_WEB_TOKEN = re.compile(r"\beyJ[\w-]{8,}+\.[\w-]++\.[\w-]*+")
_SEGMENT = re.compile(r"[\w-]*+")
_KEY_BEGINS = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----")
_KEY_ENDS = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY-----")
_QUOTED = re.compile(r"""[bru]?(\\{0,8})(["'])""")
_BARE, _BARE_JSON, _LINE = re.compile(r"[^\s&]*"), re.compile(r"[^\s,}\]]*"), re.compile(r"[^\r\n\"']*")
_OPEN = "{[("
_SIGNS = re.compile(r"""[\\"'{}()\[\]]""")
# Values that are no secrets. MASK is one of them, so that masking a text twice changes nothing.
_PLAIN = frozenset({"null", "None", "true", "false", "True", "False", "", MASK})


def mask(value: Any) -> Any:
    """A copy of JSON-able data with "***" for secrets: for values whose name tells it, and for parts of other texts."""
    return _Masking().mask(value, MAX_DEPTH)


def is_secret(name: str) -> bool:
    """Whether a value with this name is a secret: password, apiKey, X-Auth-Token, redis_dsn."""
    return _NAME.search(name) is not None


def brief_text(text: str, characters: int) -> str:
    """The text, or if it is long its beginning without secrets."""
    return text if len(text) <= characters else mask_text(text)[:characters]


def mask_text(text: str) -> str:
    """The text without passwords in URLs, values of secret names, bearer tokens and private keys."""
    if len(text) > MAX_TEXT_CHARACTERS:
        return MASK
    text = _without_private_keys(text)
    text = _without_web_tokens(text)
    text = _without(_OWN_KEY, text, lambda found: MASK)
    if "@" in text:
        text = _without_passwords(text)
    text = _without(_BEARER, text, lambda found: found[1] + MASK)
    text = _without(_BASIC, text, _without_credentials)
    if "-" in text:
        text = _without(_FLAG, text, lambda found: found[1] + MASK)
    return _without_values(text)


def mask_to_cut(text: str, most: int = MAX_TEXT_CHARACTERS) -> str:
    """The text without its secrets, for a caller that cuts it afterwards: half a secret may not be recognised.

    For a text of more than `most` characters: its beginning, without a last word that may be half a secret.
    """
    if len(text) <= most:
        return mask_text(text)
    return mask_text(_without_last_word(text[:most])) + " …"


def _without_last_word(text: str) -> str:
    """The text without its last word, if a token or URL begins in it that cannot be recognised without the rest."""
    begin = max(text.rfind(" "), text.rfind("\n"), text.rfind("\t")) + 1
    return text[:begin] if "eyJ" in text[begin:] or "://" in text[begin:] else text


def _search(pattern: re.Pattern[str], text: str, at: int) -> re.Match[str] | None:
    """As pattern.search(text, at), but in steps, between which other threads can run."""
    while at < len(text):
        found = pattern.search(text, at, at + _STEP_CHARACTERS + _HEAD_CHARACTERS)
        if found is None or found.start() >= at + _STEP_CHARACTERS:
            at += _STEP_CHARACTERS
        elif (whole := pattern.match(text, found.start())) is not None:
            return whole
        else:
            at = found.start() + 1
    return None


def _without(pattern: re.Pattern[str], text: str, shown: Callable[[re.Match[str]], str]) -> str:
    """As pattern.sub(shown, text)."""
    parts, at = [], 0
    while (found := _search(pattern, text, at)) is not None:
        parts += [text[at : found.start()], shown(found)]
        at = found.end()
    return "".join([*parts, text[at:]]) if parts else text


class _Masking:
    """Masks one value, and counts down the parts and characters that may still be scanned."""

    def __init__(self) -> None:
        self._parts, self._characters = MAX_PARTS, MAX_CHARACTERS

    def mask(self, value: Any, depth: int) -> Any:
        match value:
            case str():
                return self._text(value)
            case Mapping() | list() | tuple() | set() | frozenset() if not depth or not self._has_room(value):
                return MASK
            case Mapping():
                return {self._key(key): self._under(str(key), inner, depth - 1) for key, inner in value.items()}
            case list() | tuple() | set() | frozenset():
                return [self.mask(inner, depth - 1) for inner in value]
        return value

    def _has_room(self, value: Sized) -> bool:
        self._parts -= len(value) + 1
        return self._parts >= 0

    def _text(self, text: str) -> str:
        self._characters -= len(text)
        return mask_text(text) if self._characters >= 0 else MASK

    def _key(self, key: Any) -> Any:
        return self._text(key) if isinstance(key, str) else key

    def _under(self, name: str, value: Any, depth: int) -> Any:
        if not is_secret(name):
            return self.mask(value, depth)
        if value is None or isinstance(value, bool) or value == "":
            return value
        return value if _is_count(name, value) else MASK


def _is_count(name: str, value: Any) -> bool:
    """Whether the value is a number of tokens, such as max_tokens=100, and not a token."""
    return name.lower().endswith("tokens") and str(value).isdecimal()


def _without_private_keys(text: str) -> str:
    """The text without private keys. A key without an end is hidden to the end of the text, a key without a beginning
    from the cut, or from the beginning of the text."""
    parts, at = [], 0
    end = _search(_KEY_ENDS, text, 0) if "-----END " in text else None
    if end is not None and _search(_KEY_BEGINS, text[: end.start()], 0) is None:
        cut = text.rfind(CUT_MARK, 0, end.start())
        parts, at = [text[: cut + len(CUT_MARK)] if cut >= 0 else "", MASK], end.end()
    while (begin := _search(_KEY_BEGINS, text, at)) is not None:
        end = _search(_KEY_ENDS, text, begin.end())
        parts += [text[at : begin.start()], MASK]
        at = end.end() if end else len(text)
    return "".join([*parts, text[at:]]) if parts else text


def _without_web_tokens(text: str) -> str:
    parts, done, at = [], 0, text.find("eyJ")
    while at >= 0:
        end = at + 1
        if at == 0 or not (text[at - 1].isalnum() or text[at - 1] == "_"):
            found = _WEB_TOKEN.match(text, at)
            # If no token begins here, none begins later in the same segment: the rest of it would be the same.
            end = found.end() if found else _end(_SEGMENT, text, at)
            if found:
                parts += [text[done:at], MASK]
                done = end
        at = text.find("eyJ", end)
    return "".join([*parts, text[done:]]) if parts else text


def _without_passwords(text: str) -> str:
    """The text without passwords in URLs; user names stay. A password may contain @: it ends at the word's last one."""
    parts, done, at, word_ends = [], 0, 0, -1
    while (found := _search(_URL, text, at)) is not None:
        scheme, at = found[1], found.end()
        if word_ends < at:
            word = _URL_END.search(text, at)
            word_ends = word.start() if word else len(text)
        end = text.rfind("@", at + 1, min(word_ends, at + _MAX_PASSWORD_CHARACTERS + 1))
        # http://host:8080/people/a@b.c has a port there.
        if end < 0 or (scheme and _PORT.match(text, at, end)):
            at = end + 1 if end >= 0 else found.start(2) + 3
            continue
        parts += [text[done:at], MASK]
        done = at = end
    return "".join([*parts, text[done:]]) if parts else text


def _without_credentials(match: re.Match[str]) -> str:
    try:
        return match[1] + MASK if b":" in binascii.a2b_base64(match[2]) else match[0]
    except binascii.Error:
        return match[0]


def _without_values(text: str) -> str:
    """The text without the values of secret names. Quotes are kept, so that JSON remains JSON."""
    parts, at = [], 0
    while (found := _search(_PAIR, text, at)) is not None:
        name, begin = found[1], found.end()
        end, shown = _value(text, begin, name, quoted=found[2])
        parts += [text[at:begin], shown]
        at = max(end, begin)
    return "".join([*parts, text[at:]])


def _value(text: str, begin: int, name: str, quoted: str) -> tuple[int, str]:
    """The end of the value that begins at `begin`, and the text to show in its place."""
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
    """The end of a quoted value: its closing quote, or the end of the text if that is missing."""
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
    """The end of the bracket that opens at `begin`, after its closing one. The end of the text if that is missing."""
    depth, inside, skipped = 0, "", -1
    for found in _SIGNS.finditer(text, begin):
        char, at = found[0], found.start()
        if at == skipped:
            continue
        if char == "\\":
            skipped = at + 1
        elif inside:
            inside = "" if char == inside else inside
        elif char in "\"'":
            inside = char
        elif char in _OPEN:
            depth += 1
        else:
            depth -= 1
            if not depth:
                return at + 1
    return len(text)
