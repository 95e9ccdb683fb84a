"""The steps of put_documents: each document is written alone, consecutive drops of a kind are one step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby

from ..records.document import Document, DocumentDrop

Drops = dict[int, DocumentDrop]
"""Drops of one kind, by their position in the call."""


def document_steps(documents: Iterable[tuple[int, Document | DocumentDrop]]) -> Iterator[tuple[int, Document | Drops]]:
    """The steps of these pairs of position and document, in order, each with its first position."""
    for _, some in groupby(documents, key=lambda pair: pair[1].kind if isinstance(pair[1], DocumentDrop) else pair[0]):
        pairs = list(some)
        n, first = pairs[0]
        yield n, first if isinstance(first, Document) else {n: one for n, one in pairs if isinstance(one, DocumentDrop)}


def drop_answers(drops: Drops, dropped: Collection[str]) -> dict[int, bool]:
    """The answer to each drop by its position, given the names that were deleted: a second drop of a name is False."""
    left = set(dropped)
    answers = {}
    for n, one in drops.items():
        answers[n] = one.name in left
        left.discard(one.name)
    return answers
