"""Errors as application/problem+json, each with a code that stays."""

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
from .path import whole

MEDIA_TYPE = "application/problem+json"
_logger = logging.getLogger("mainspring")
# Once a minute, since anyone may ask as often as they like.
_unserved = SurvivedErrors("api", "requests of callers who have not signed in are answered with 503")
# Seconds after which a store in passing trouble may be asked again.
AGAIN = 1
# How a message says who sent it.
_SIGNED = "StandardWebhooks"
# What went wrong, by status, where the framework found it.
_CODES = {
    400: "malformed", 401: "unauthenticated", 403: "forbidden", 404: "no_such_route", 405: "method_not_allowed",
    413: "too_large", 415: "unsupported_media_type", 422: "invalid",
}  # fmt: skip
_STATUS: Mapping[type[Exception], tuple[int, str]] = {
    errors.BadPayload: (422, "bad_payload"),
    errors.WorkerNotFound: (404, "worker_not_found"),
    errors.BadInput: (422, "bad_input"),
    errors.UnknownTask: (422, "unknown_task"),
    errors.JobNotFound: (404, "job_not_found"),
    errors.ScheduleNotFound: (404, "schedule_not_found"),
    errors.ScheduleExists: (409, "schedule_exists"),
    errors.ScheduleChanged: (412, "changed"),
    errors.JobExists: (409, "job_exists"),
    errors.HookNotFound: (404, "hook_not_found"),
    errors.HookExists: (409, "hook_exists"),
    errors.HookChanged: (412, "hook_changed"),
    errors.NotSigned: (401, "not_signed"),
    errors.Stale: (400, "stale"),
    errors.ApiKeyNotFound: (404, "key_not_found"),
    errors.ApiKeyExists: (409, "key_exists"),
    errors.InvalidTransition: (409, "invalid_transition"),
    Busy: (503, "too_slow"),
    errors.ShuttingDown: (503, "shutting_down"),
    errors.StoreUnavailable: (503, "store_unavailable"),
    errors.SchemaMismatch: (503, "schema_mismatch"),
    errors.StoreError: (503, "store_error"),
    errors.MainspringError: (500, "error"),
}


class Problem(Exception):
    """An answer that says what is wrong and what to do about it."""

    def __init__(
        self, status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **extra: Any
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail
        self.headers, self.extra = dict(headers or {}), extra


def _answer(request: Request[Any, Any, Any], problem: Problem) -> Response[Any]:
    body = {"type": "about:blank", "status": problem.status, "code": problem.code, "detail": problem.detail}
    content = body | {"instance": _address(request)} | problem.extra
    return Response(content, status_code=problem.status, headers=problem.headers, media_type=MEDIA_TYPE)


def _address(request: Request[Any, Any, Any]) -> str:
    """The path as the client sees it, with the prefix of the application that we are mounted in."""
    return f"{request.scope.get(ROOT, '')}{whole(request.scope['path'])}"


def _asked(request: Request[Any, Any, Any]) -> str:
    """The request in a log: a client writes the path, so it is quoted, and cut."""
    return f"{request.scope['method']} {request.scope['path']!r:.200}"


def _problem(request: Request[Any, Any, Any], error: Problem) -> Response[Any]:
    return _answer(request, error)


def code_of(error: errors.MainspringError) -> tuple[int, str]:
    """The status and the code of an error of the library."""
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def _ours(request: Request[Any, Any, Any], error: errors.MainspringError) -> Response[Any]:
    status, code = code_of(error)
    if status == 422 and request.scope["method"] in ("GET", "DELETE"):  # there is nothing but the address
        status, code = 400, "bad_parameter"
    extra = {name: value for name, value in vars(error).items() if value and isinstance(value, str)}
    headers = {503: {"Retry-After": str(AGAIN)}, 401: {"WWW-Authenticate": _SIGNED}}.get(status)
    detail = str(error)
    if isinstance(error, errors.StoreError) and request.scope.get("user") is None:
        # An anonymous caller does not learn where the store is.
        _unserved(error)
        detail, extra = "the store does not answer as it should; the server's log says why", {}
    return _answer(request, Problem(status, code, detail, headers=headers, **extra))


def _invalid(request: Request[Any, Any, Any], error: ValidationException) -> Response[Any]:
    """A body that is JSON and not what is asked for is 422; what stands in the address is 400."""
    found = error.extra if isinstance(error.extra, list) else []
    of_body = any(isinstance(one, dict) and one.get("source", "body") == "body" for one in found)
    detail = "; ".join(_words(one) for one in found) or error.detail
    status = 422 if of_body else 400
    return _answer(request, Problem(status, "invalid" if of_body else "bad_parameter", detail))


def _words(one: Any) -> str:
    if not isinstance(one, dict):
        return str(one)
    key, message = one.get("key"), one.get("message", "")
    if message == "'data'":  # the framework's word for a body that is not there
        return "this needs a JSON body"
    return f"{key}: {message}" if key else str(message)


def answer_of(request: Request[Any, Any, Any], error: HTTPException) -> Response[Any]:
    """To an error of the framework's own, such as an address that leads nowhere."""
    if error.status_code == 500:
        return _unforeseen(request, error)
    code = _CODES.get(error.status_code, "error")
    detail = error.detail or code
    if error.status_code == 404:
        asked, root = f"{request.scope['method']} {_address(request)}", request.scope.get(ROOT, "")
        detail = f"there is no {asked}; {root}/openapi.json lists what there is"
    return _answer(request, Problem(error.status_code, code, detail, headers=error.headers))


def _unforeseen(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
    _logger.exception("%s failed", _asked(request), exc_info=error)
    return _answer(request, Problem(500, "internal", "something went wrong here; the server's log says what"))


HANDLERS: ExceptionHandlersMap = {
    Problem: _problem,
    errors.MainspringError: _ours,
    ValidationException: _invalid,
    HTTPException: answer_of,
    Exception: _unforeseen,
}
