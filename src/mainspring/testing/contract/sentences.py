"""Citations: which numbered sentences of the Store protocol a contract test proves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Test = TypeVar("Test", bound=Callable[..., Any])


def proves(*sentences: str) -> Callable[[Test], Test]:
    """Records the numbers of the sentences, such as "F1", that the test proves."""

    def record(test: Test) -> Test:
        test.sentences = sentences  # type: ignore[attr-defined]
        return test

    return record
