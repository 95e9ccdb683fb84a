"""Line: asks an API, and has its answers as records, or as the errors that a store would have raised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from ... import errors
from .place import ApiUrl

T = TypeVar("T")
# Seconds for an answer, beyond those that the server was asked to wait.
PATIENCE = 10.0
_BY_CODE: Mapping[str, type[errors.MainspringError]] = {
    "job_not_found": errors.JobNotFound,
    "schedule_not_found": errors.ScheduleNotFound,
    "schedule_exists": errors.ScheduleExists,
    "worker_not_found": errors.WorkerNotFound,
    "key_not_found": errors.ApiKeyNotFound,
    "key_exists": errors.ApiKeyExists,
    "changed": errors.ScheduleChanged,
    "hook_not_found": errors.HookNotFound,
    "hook_exists": errors.HookExists,
    "hook_changed": errors.HookChanged,
    "unknown_task": errors.UnknownTask,
    "bad_payload": errors.BadPayload,
    "store_unavailable": errors.StoreUnavailable,
    "shutting_down": errors.StoreUnavailable,
}
_BY_STATUS: Mapping[int, type[errors.MainspringError]] = {
    400: errors.BadInput, 413: errors.BadInput, 422: errors.BadInput, 429: errors.StoreUnavailable,
    502: errors.StoreUnavailable, 503: errors.StoreUnavailable, 504: errors.StoreUnavailable,
}  # fmt: skip


class _Problem(msgspec.Struct):
    code: str = ""
    detail: str = ""
    job_id: str = ""
    worker_id: str = ""
    key: str = ""
    state: str = ""
    action: str = ""
    allowed: str = ""


class ApiConnection:
    """For one event loop. Redirects are not followed: they would take the key elsewhere."""

    def __init__(self, place: ApiUrl, key: str) -> None:
        self._place = place
        self._client = httpx.AsyncClient(
            base_url=f"{place.root}/api/v1", headers={"Authorization": f"Bearer {key}"}, verify=place.tls(),
            timeout=PATIENCE, limits=httpx.Limits(max_connections=20),
        )  # fmt: skip

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(self, type: type[T], method: str, *path: str, **asked: Any) -> T:
        """The answer, as that type; what is asked is as in tell()."""
        answer = await self.tell(method, *path, **asked)
        try:
            return msgspec.json.decode(answer, type=type)
        except msgspec.DecodeError as error:
            raise errors.StoreError(f"{self._place.shown} answers what this release cannot read: {error}") from None

    async def tell(
        self,
        method: str,
        *path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        wait: float = 0.0,
        if_match: int | None = None,
    ) -> bytes:
        """What it answers if it did what it was asked. `wait` are seconds that the server may take on purpose."""
        headers = {} if body is None else {"Content-Type": "application/json"}
        if if_match is not None:
            headers["If-Match"] = f'"{if_match}"'
        try:
            answer = await self._client.request(
                method, "/".join(quote(part, safe="") for part in path), params=_query(query or {}), headers=headers,
                content=None if body is None else msgspec.json.encode(body), timeout=PATIENCE + wait,
            )  # fmt: skip
        except httpx.TransportError as error:
            why = str(error) or error.__class__.__name__
            raise errors.StoreUnavailable(f"{self._place.shown} does not answer: {why}") from None
        if not answer.is_success:
            raise self._error(answer)
        return answer.content

    def _error(self, answer: httpx.Response) -> errors.MainspringError:
        try:
            problem = msgspec.json.decode(answer.content, type=_Problem)
        except msgspec.DecodeError:
            problem = _Problem()
        status, detail = answer.status_code, problem.detail or f"HTTP {answer.status_code}"
        if problem.code == "job_exists":
            return errors.JobExists(problem.key, problem.job_id)
        if problem.code == "invalid_transition":
            return errors.InvalidTransition(
                problem.job_id, problem.state, problem.action, problem.allowed, problem.worker_id
            )
        if status in (401, 403):
            return errors.BadSetting(f"{self._place.shown}: {detail} (api_key=, or $MAINSPRING_API_KEY)")
        if kind := _BY_CODE.get(problem.code) or _BY_STATUS.get(status):
            return kind(detail)
        way_out = "" if problem.code else "; is there an API of Mainspring at that address?"
        return errors.StoreError(f"{self._place.shown}: {detail}{way_out}")


def _query(given: Mapping[str, Any]) -> httpx.QueryParams:
    """Lists as repeated parameters; what is None is left out."""
    pairs: list[tuple[str, Any]] = []
    for name, value in given.items():
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        pairs += [(name, str(msgspec.to_builtins(one))) for one in values if one is not None]
    return httpx.QueryParams(pairs)
