"""Errors as application/problem+json, each with a code that never changes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.types import ExceptionHandlersMap

from .. import errors
from ..control.computation import Busy
from ..survived_errors import SurvivedErrors
from .mount_path import ROOT
from .path import unescape_slashes

MEDIA_TYPE = "application/problem+json"
_logger = logging.getLogger("mainspring")
# Logs once a minute, since anyone can send requests.
_hidden_errors = SurvivedErrors("api", "requests of callers who have not signed in are answered with 503")
# Until a request may succeed that failed because of the store.
RETRY_AFTER_SECONDS = 1
# The authentication scheme of inbound webhook messages.
_SIGNATURE_SCHEME = "StandardWebhooks"
# The codes of errors that Litestar raises, by status.
_CODES = {
    400: "malformed",
    401: "unauthenticated",
    403: "forbidden",
    404: "no_such_route",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid",
}
_STATUS: Mapping[type[Exception], tuple[int, str]] = {
    errors.BadPayload: (422, "bad_payload"),
    errors.BadFlow: (422, "bad_flow"),
    errors.WorkerNotFound: (404, "worker_not_found"),
    errors.BadInput: (422, "bad_input"),
    errors.UnknownTask: (422, "unknown_task"),
    errors.JobNotFound: (404, "job_not_found"),
    errors.ScheduleNotFound: (404, "schedule_not_found"),
    errors.ScheduleExists: (409, "schedule_exists"),
    errors.ScheduleChanged: (412, "changed"),
    errors.JobExists: (409, "job_exists"),
    errors.BatchEnded: (409, "batch_ended"),
    errors.HookNotFound: (404, "hook_not_found"),
    errors.HookExists: (409, "hook_exists"),
    errors.HookChanged: (412, "hook_changed"),
    errors.NotSigned: (401, "not_signed"),
    errors.Stale: (400, "stale"),
    errors.ApiKeyNotFound: (404, "key_not_found"),
    errors.ApiKeyExists: (409, "key_exists"),
    errors.InvalidTransition: (409, "invalid_transition"),
    errors.SignalTwice: (409, "signal_twice"),
    errors.SignalLate: (410, "signal_late"),
    errors.SignalUnknown: (404, "signal_unknown"),
    errors.SignalRefused: (409, "signal_refused"),
    Busy: (503, "too_slow"),
    errors.ShuttingDown: (503, "shutting_down"),
    errors.StoreUnavailable: (503, "store_unavailable"),
    errors.SchemaMismatch: (503, "schema_mismatch"),
    errors.StoreError: (503, "store_error"),
    errors.MainspringError: (500, "error"),
}


class Problem(Exception):
    """An error response: its detail says what is wrong and what to do."""

    def __init__(
        self, status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **extra: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail
        self.headers, self.extra = dict(headers or {}), extra


def _response(request: Request[Any, Any, Any], problem: Problem) -> Response[Any]:
    body = {"type": "about:blank", "status": problem.status, "code": problem.code, "detail": problem.detail}
    content = body | {"instance": _client_path(request)} | problem.extra
    return Response(content, status_code=problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


def _client_path(request: Request[Any, Any, Any]) -> str:
    """The path as the client sees it, with the mount path."""
    return f"{request.scope.get(ROOT, '')}{unescape_slashes(request.scope['path'])}"


def _request_line(request: Request[Any, Any, Any]) -> str:
    """The request for a log line. A client chooses the path, so it is quoted and cut."""
    return f"{request.scope['method']} {request.scope['path']!r:.200}"


def _handle_problem(request: Request[Any, Any, Any], error: Problem) -> Response[Any]:
    return _response(request, error)


def code_of(error: errors.MainspringError) -> tuple[int, str]:
    """The HTTP status and the code of an error of the library."""
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def _handle_library_error(request: Request[Any, Any, Any], error: errors.MainspringError) -> Response[Any]:
    status, code = code_of(error)
    if status == 422 and request.scope["method"] in ("GET", "DELETE"):  # without a body, the value came from the URL
        status, code = 400, "bad_parameter"
    extra = {name: value for name, value in vars(error).items() if value and isinstance(value, str)}
    headers = {503: {"Retry-After": str(RETRY_AFTER_SECONDS)}, 401: {"WWW-Authenticate": _SIGNATURE_SCHEME}}.get(status)
    detail = str(error)
    if isinstance(error, errors.StoreError) and request.scope.get("user") is None:
        # The error's text may name the store's address: it is not for anonymous callers.
        _hidden_errors(error)
        detail, extra = "the store failed; see the server's log", {}
    return _response(request, Problem(status, code, detail, headers=headers, **extra))


def _handle_validation(request: Request[Any, Any, Any], error: ValidationException) -> Response[Any]:
    """422 if the body has the wrong type; 400 if a parameter is invalid."""
    found = error.extra if isinstance(error.extra, list) else []
    of_body = any(isinstance(one, dict) and one.get("source", "body") == "body" for one in found)
    detail = "; ".join(_describe(one) for one in found) or error.detail
    status = 422 if of_body else 400
    return _response(request, Problem(status, "invalid" if of_body else "bad_parameter", detail))


def _describe(one: Any) -> str:
    if not isinstance(one, dict):
        return str(one)
    key, message = one.get("key"), one.get("message", "")
    if message == "'data'":  # Litestar's message for a missing body
        return "this needs a JSON body"
    return f"{key}: {message}" if key else str(message)


def http_exception(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """The response to an error of Litestar, such as an unknown path."""
    if error.status_code == 500:
        return _handle_bug(request, error)
    code = _CODES.get(error.status_code, "error")
    detail = error.detail or code
    if error.status_code == 404:
        line, root = f"{request.scope['method']} {_client_path(request)}", request.scope.get(ROOT, "")
        detail = f"there is no {line}; {root}/openapi.json lists every route"
    return _response(request, Problem(error.status_code, code, detail, headers=error.headers))


def _handle_bug(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    _logger.exception("%s failed", _request_line(request), exc_info=error)
    return _response(request, Problem(500, "internal", "internal error; see the server's log"))


HANDLERS: ExceptionHandlersMap = {
    Problem: _handle_problem,
    errors.MainspringError: _handle_library_error,
    ValidationException: _handle_validation,
    HTTPException: http_exception,
    Exception: _handle_bug,
}
