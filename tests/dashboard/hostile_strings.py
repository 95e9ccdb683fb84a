"""Strings that are code to a careless page, or that break its sentences and URLs."""

from __future__ import annotations

# May be the name of anything: a queue, a tag, a schedule.
NAMES = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "'-alert(1)-'",
    "</textarea></title></style><script>alert(1)</script>",
    '<a href="javascript:alert(1)">click</a>',
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    '<iframe srcdoc="<script>parent.alert(1)</script>">',
    "<style>*{display:none}</style>",
    "<base href=//evil.example/>",
    "${alert(1)}{{alert(1)}}#{alert(1)}",
    "__proto__",
    "constructor",
    "../../keys",
    "a/b?c=d&e=f#g%2F%00",
    "\\u003cscript\\u003ealert(1)",
    "𝕳ostile 💥 ﷽ e\u0301",
    "x" * 200,
)
# May be in text only: arguments, results, errors, lines of a log.
TEXTS = (*NAMES, "\x1b[31mred\x1b[0m\x1b[2J", "\u202egnp.exe\u202c", "first\nsecond\r\tthird", "\u2028\u2029\ufeff", "")
