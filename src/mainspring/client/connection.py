"""ApiConnection: sends requests to an API, and returns its responses as records or raises its problems as errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from .. import errors
from .url import ApiUrl

T = TypeVar("T")
# Time for a response, in addition to the time that the server was asked to wait.
RESPONSE_TIMEOUT_SECONDS = 10.0
# The API takes no more jobs in one request.
MAX_BATCH_JOBS = 1000
# How long one request asks the API to wait for the end of a job.
MAX_WAIT_SECONDS = 20.0
MAX_CONNECTIONS = 20
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
    "bad_flow": errors.BadFlow,
    "bad_payload": errors.BadPayload,
    "flow_not_found": errors.BadInput,
    "batch_not_found": errors.BadInput,
    "signal_twice": errors.SignalTwice,
    "signal_late": errors.SignalLate,
    "signal_unknown": errors.SignalUnknown,
    "signal_refused": errors.SignalRefused,
    "store_unavailable": errors.StoreUnavailable,
    "shutting_down": errors.StoreUnavailable,
}
_BY_STATUS: Mapping[int, type[errors.MainspringError]] = {
    400: errors.BadInput,
    413: errors.BadInput,
    422: errors.BadInput,
    429: errors.StoreUnavailable,
    502: errors.StoreUnavailable,
    503: errors.StoreUnavailable,
    504: errors.StoreUnavailable,
}


class _ProblemResponse(msgspec.Struct):
    code: str = ""
    detail: str = ""
    job_id: str = ""
    worker_id: str = ""
    batch_id: str = ""
    key: str = ""
    state: str = ""
    action: str = ""
    allowed: str = ""


class ApiConnection:
    """HTTP connections to one API, for one event loop. Redirects are not followed: they would leak the API key."""

    def __init__(self, url: ApiUrl, key: str) -> None:
        self._url = url
        self._client = httpx.AsyncClient(
            base_url=f"{url.root}/api/v1",
            headers={"Authorization": f"Bearer {key}"},
            verify=url.tls(),
            timeout=RESPONSE_TIMEOUT_SECONDS,
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS),
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def call(self, type: type[T], method: str, *path: str, **options: Any) -> T:
        """Sends a request and returns the response decoded as `type`; the options are those of send().

        Raises StoreError if the response cannot be decoded.
        """
        content = await self.send(method, *path, **options)
        try:
            return msgspec.json.decode(content, type=type)
        except msgspec.DecodeError as error:
            raise errors.StoreError(
                f"{self._url.shown} sent a response that this release cannot read: {error}"
            ) from None

    async def send(
        self,
        method: str,
        *path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        wait: float = 0.0,
        if_match: int | None = None,
        key: str | None = None,
    ) -> bytes:
        """Sends a request and returns the body of the response. `wait` adds seconds to the timeout.

        Raises StoreUnavailable if there is no response, and the error of the API's problem if it refuses.
        """
        headers = {} if body is None else {"Content-Type": "application/json"}
        if if_match is not None:
            headers["If-Match"] = f'"{if_match}"'
        if key is not None:
            headers["Idempotency-Key"] = key
        try:
            response = await self._client.request(
                method,
                "/".join(quote(part, safe="") for part in path),
                params=_query(query or {}),
                headers=headers,
                content=None if body is None else msgspec.json.encode(body),
                timeout=RESPONSE_TIMEOUT_SECONDS + wait,
            )
        except httpx.TransportError as error:
            why = str(error) or error.__class__.__name__
            raise errors.StoreUnavailable(f"{self._url.shown} does not answer: {why}") from None
        if not response.is_success:
            raise self._error(response)
        return response.content

    def _error(self, response: httpx.Response) -> errors.MainspringError:
        try:
            problem = msgspec.json.decode(response.content, type=_ProblemResponse)
        except msgspec.DecodeError:
            problem = _ProblemResponse()
        status, detail = response.status_code, problem.detail or f"HTTP {response.status_code}"
        if problem.code == "job_exists":
            return errors.JobExists(problem.key, problem.job_id)
        if problem.code == "batch_ended":
            return errors.BatchEnded(problem.batch_id)
        if problem.code == "invalid_transition":
            return errors.InvalidTransition(
                problem.job_id, problem.state, problem.action, problem.allowed, problem.worker_id
            )
        if status in (401, 403):
            return errors.BadSetting(f"{self._url.shown}: {detail} (api_key=, or $MAINSPRING_API_KEY)")
        if kind := _BY_CODE.get(problem.code) or _BY_STATUS.get(status):
            return kind(detail)
        question = "" if problem.code else "; is there an API of Mainspring at that address?"
        return errors.StoreError(f"{self._url.shown}: {detail}{question}")


def _query(parameters: Mapping[str, Any]) -> httpx.QueryParams:
    """A list becomes a repeated parameter; None is left out."""
    pairs: list[tuple[str, Any]] = []
    for name, value in parameters.items():
        values = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
        pairs += [(name, str(msgspec.to_builtins(one))) for one in values if one is not None]
    return httpx.QueryParams(pairs)
