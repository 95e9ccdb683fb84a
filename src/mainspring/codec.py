"""The codec: arguments and results as JSON text, decoded to the types that a function declares."""

from __future__ import annotations

import inspect
import math
import re
import typing
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

import msgspec
from msgspec import UNSET, Struct, ValidationError

from .errors import BadFlow, BadPayload, BadTask
from .records.run import Failure
from .suggest import nearest_name

# hashlib, which has the same class, asks OpenSSL for all of its algorithms when it is imported: 0.7 MB in each process.
try:
    from _blake2 import blake2b as blake2b
except ImportError:
    from hashlib import blake2b as blake2b

MAX_INT = 2**63
# Levels of a document. Python 3.11 decodes about 900, newer releases 10,000 and more; each must decode the others'.
MAX_DEPTH = 500
# JSON that may contain a value to be refused: NUL, NaN (encoded as null) or an integer of more than 64 bits.
_TO_INSPECT = re.compile(rb"\\u0000|null|\d{19}")
_NOT_STRUCTURE = bytes(set(range(256)) - set(b'[]{}"'))
# Bytes of a fingerprint, which distinguishes the few versions of one task.
FINGERPRINT_BYTES = 5
MAX_PARAMETERS_CHARACTERS = 500
# Names of a first parameter without annotation that was probably meant to be the run's Context.
_CONTEXT_NAMES = ("ctx", "context")


def _enc_hook(value: Any) -> Any:
    if hasattr(value, "model_dump"):  # pydantic, without importing it
        return value.model_dump(mode="json")
    raise TypeError(
        f"{type(value).__name__} is not a type JSON can carry: send text, numbers, lists, dicts, dataclasses or models"
    )


def _dec_hook(wanted: Any, value: Any) -> Any:
    if hasattr(wanted, "model_validate"):
        return wanted.model_validate(value)
    if (refusal := getattr(wanted, "_refusal", None)) is not None:
        raise TypeError(refusal)
    raise TypeError(f"cannot make a {getattr(wanted, '__name__', wanted)} from JSON")


_encoder = msgspec.json.Encoder(enc_hook=_enc_hook)


def encode(value: Any, limit: float = math.inf) -> bytes:
    """JSON that every store, page and language can hold. Raises BadPayload, with the reason, if there is none.

    A result of more than `limit` bytes is returned unchecked: the caller refuses it, and the check blocks all threads.
    """
    try:
        data = _encoder.encode(value)
        if len(data) > limit:
            return data
        if len(data) > MAX_DEPTH and too_deep(data):
            raise RecursionError
        if _TO_INSPECT.search(data):
            _inspect(msgspec.to_builtins(value, enc_hook=_enc_hook))
    except UnicodeEncodeError:
        raise BadPayload("text with a lone surrogate is not valid Unicode: replace it, or send bytes") from None
    except RecursionError:
        raise BadPayload(
            f"nested too deeply, over {MAX_DEPTH} levels: flatten it, or keep it elsewhere and send its name"
        ) from None
    except (BadPayload, BadFlow):
        raise
    except (TypeError, ValueError, OverflowError) as bad:
        reason = str(bad)
        raise BadPayload(reason if ": send" in reason else f"{reason}: send text or plain data instead") from None
    return data


def too_deep(data: bytes, limit: int = MAX_DEPTH) -> bool:
    """Whether a JSON document has more levels than the limit. Cheap for a document with few brackets."""
    return data.count(b"[") + data.count(b"{") > limit and _depth(data) > limit


def _depth(data: bytes) -> int:
    unescaped = data.replace(rb"\\", b"").replace(rb"\"", b"")
    # Texts without a bracket in them are removed first: there may be millions of them.
    structure = unescaped.translate(None, _NOT_STRUCTURE).replace(b'""', b"")
    brackets = b"".join(structure.split(b'"')[::2])
    return max(accumulate(1 if bracket in b"[{" else -1 for bracket in brackets), default=0)


def _inspect(value: Any) -> None:
    """Raises BadPayload for what JSON changes silently (NaN) or a store cannot keep (NUL, integers over 64 bits)."""
    match value:
        case float() if not math.isfinite(value):
            raise BadPayload(f"{value} has no JSON form: send None or text instead")
        case int() if not -MAX_INT <= value < MAX_INT:
            raise BadPayload(f"{value} does not fit 64 bits: send it as text")
        case str() if "\x00" in value:
            raise BadPayload("text with a NUL character cannot be stored: remove it, or send bytes")
        case list() | tuple():
            for item in value:
                _inspect(item)
        case dict():
            for key, item in value.items():
                _inspect(key)
                _inspect(item)


def decode_or_text(text: str) -> Any:
    """The value of a JSON text. The text itself if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


class Arguments:
    """Encodes and decodes the arguments of one function, as a JSON object by parameter name."""

    def __init__(self, fn: Callable[..., Any], task: str, context: type, results: type | None = None) -> None:
        """`context` and `results` are the types of parameters that are not made from JSON alone."""
        self.task = task
        self.context: str | None = None
        self.types: dict[str, Any] = {}
        """The types of the parameters by name; of *args as that of a list."""
        self.required: list[str] = []
        self.item_types: dict[str, Any] = {}
        """The parameters that read the results of a map, with the types of these."""
        self._results = results
        self._names: list[str] = []
        self._first: list[str] = []  # positional only
        self.positional: list[str] = []
        self.rest: str | None = None
        self._extra: Any = None
        hints, declared = _hints(fn, task), _signature(fn, task).parameters
        fields: list[Any] = []
        for n, parameter in enumerate(declared.values()):
            hint = hints.get(parameter.name, Any)
            hint = Any if hint is object else hint
            if hint is context:
                if n or parameter.kind is parameter.KEYWORD_ONLY:
                    raise BadTask(f"task {task!r}: the Context parameter {parameter.name!r} must come first")
                self.context = parameter.name
            elif not n and hint is Any and parameter.name in _CONTEXT_NAMES and parameter.annotation is parameter.empty:
                raise BadTask(
                    f"task {task!r}: its first parameter, {parameter.name!r}, has no type, so it would get the first "
                    f"argument of the job: write `{parameter.name}: Context` for the run's Context, or rename it"
                )
            elif context in typing.get_args(hint):
                raise BadTask(f"task {task!r}: annotate {parameter.name!r} as Context, and nothing else")
            elif parameter.kind is parameter.VAR_POSITIONAL:
                self.rest = f"*{parameter.name}"
                self.types[self.rest] = list[hint]  # type: ignore[valid-type]
                fields.append((self.rest, list[hint], UNSET))  # type: ignore[valid-type]
            elif parameter.kind is parameter.VAR_KEYWORD:
                self._extra = dict[str, hint]  # type: ignore[valid-type]
            else:
                self._names.append(parameter.name)
                self.types[parameter.name] = hint
                if parameter.kind is parameter.POSITIONAL_ONLY:
                    self._first.append(parameter.name)
                if parameter.kind is not parameter.KEYWORD_ONLY:
                    self.positional.append(parameter.name)
                default = () if parameter.default is parameter.empty else (UNSET,)
                self.required += [] if default else [parameter.name]
                if self._reads_results(parameter.name, hint):
                    hint, default = hint | None, (UNSET,)
                fields.append((parameter.name, hint, *default))
        self._declared = [parameter for name, parameter in declared.items() if name != self.context]
        self._by_name = all(len(field) == 2 for field in fields) and not (self._first or self.rest or self._extra)
        # Fields have neutral names, since a parameter's name may not be valid for a Struct's field.
        self._fields = {field[0]: f"a{n}" for n, field in enumerate(fields)}
        self._parameters = [(name, self._fields[name]) for name in self._names]
        self._decoder = self._make_decoder([(self._fields[name], *rest) for name, *rest in fields])

    def _reads_results(self, name: str, hint: Any) -> bool:
        """Whether the parameter reads the results of a map: it is annotated `Results[T]`, or that and None."""
        found = [one for one in (hint, *typing.get_args(hint)) if self._results in (one, typing.get_origin(one))]
        if self._results is None or not found:
            return False
        if hint is not found[0] and set(typing.get_args(hint)) != {found[0], type(None)}:
            raise BadTask(f"task {self.task!r}: annotate {name!r} as Results[…], and nothing else but None")
        (self.item_types[name],) = typing.get_args(found[0]) or (Any,)
        return True

    def _make_decoder(self, fields: list[Any]) -> Callable[[str], Struct]:
        try:
            shape = msgspec.defstruct(
                "Arguments",
                fields,
                kw_only=True,
                gc=False,
                forbid_unknown_fields=self._extra is None,
                rename={field: name for name, field in self._fields.items()},
            )
            self._shape = shape
            return msgspec.json.Decoder(shape, dec_hook=_dec_hook).decode
        except (TypeError, ValueError) as bad:
            raise BadTask(f"task {self.task!r} has parameters that JSON cannot carry: {bad}") from None

    @property
    def extra_type(self) -> Any:
        """The type of **kwargs."""
        return typing.get_args(self._extra)[1] if self._extra is not None else Any

    @property
    def parameters(self) -> str:
        """The function's parameters as text for people: (to: str, cc: list[str] = …)."""
        text = f"({', '.join(map(_shown, self._declared))})"
        return text if len(text) <= MAX_PARAMETERS_CHARACTERS else f"{text[: MAX_PARAMETERS_CHARACTERS - 1]}…"

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the payloads that the function accepts: names, types, and which are required.

        It is the same in every process and every version of Python.
        """
        try:
            extra = msgspec.json.schema(self._extra, schema_hook=_deep_schema) if self._extra is not None else None
            text = msgspec.json.encode((_canonical(self.schema(_deep_schema)), extra), order="sorted")
        except Exception:  # a type without a schema is identified by its name
            text = self.parameters.encode()
        return blake2b(text, digest_size=FINGERPRINT_BYTES).hexdigest()

    @cached_property
    def json_schema(self) -> dict[str, Any]:
        """The payload's JSON Schema, computed once."""
        return self.schema()

    def schema(self, hook: Callable[[Any], dict[str, Any]] | None = None) -> dict[str, Any]:
        """The payload's JSON Schema. A type without a schema accepts anything, unless `hook` returns one for it."""
        named = {"schema_hook": hook or _title}
        (ref,), parts = msgspec.json.schema_components([self._shape], ref_template="#/$defs/{name}", **named)
        found: dict[str, Any] = parts.pop(ref["$ref"].rpartition("/")[2])
        return {name: value for name, value in found.items() if name != "title"} | ({"$defs": parts} if parts else {})

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], limit: int) -> str:
        """The payload of a call. Raises BadPayload if the function would not accept it."""
        if not args and not kwargs and not self.required:
            return "{}"
        payload = encode_call(self.task, self.bind(args, kwargs), limit)
        try:
            self._decoder(payload) if self._extra is None and not self.item_types else self.decode(payload)
        except RecursionError:
            raise BadPayload(f"arguments of task {self.task!r} are nested too deeply: flatten them") from None
        except Exception as bad:
            raise BadPayload(f"arguments of task {self.task!r} do not fit: {bad}") from None
        return payload

    def check(self, payload: str) -> None:
        """Raises BadPayload for a payload that the function would not accept."""
        try:
            self.decode(payload)
        except Exception as bad:
            raise BadPayload(f"arguments of task {self.task!r} do not fit: {bad}") from None

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call by parameter name."""
        if not kwargs and len(args) == 1 and self.positional:  # the most frequent call, three times as fast
            return {self.positional[0]: args[0]}
        values = dict(zip(self.positional, args, strict=False))
        if len(args) > len(self.positional):
            if self.rest is None:
                takes = f"at most {len(self.positional)}" if self.positional else "no"
                raise BadPayload(f"task {self.task!r} takes {takes} positional arguments, got {len(args)}")
            values[self.rest] = list(args[len(self.positional) :])
        for name, value in kwargs.items():
            if name in values:
                raise BadPayload(f"task {self.task!r} got argument {name!r} twice")
            if name not in self._names and self._extra is None:
                near = nearest_name(name, self._names)
                way = f"; did you mean {near!r}?" if near else ""
                takes = ", ".join(self._names)
                raise BadPayload(f"task {self.task!r} has no argument {name!r} (takes: {takes}){way}")
            values[name] = value
        return values

    def decode(self, payload: str, results: Mapping[str, Any] = {}) -> tuple[list[Any], dict[str, Any]]:
        """The positional and keyword arguments to call the function with. `results` has the results of maps by
        parameter."""
        if payload == "{}" and not self._names:
            return [], {}
        shape = self._decoder(payload)
        if self._by_name:  # hot: every parameter has a value, which is passed by name
            return [], {name: getattr(shape, field) for name, field in self._parameters}
        values = {name: value for name, field in self._parameters if (value := getattr(shape, field)) is not UNSET}
        if self.item_types:
            self._put_results(values, results)
        rest = UNSET if self.rest is None else getattr(shape, self._fields[self.rest])
        first = self._first if rest is UNSET else self.positional
        args = [values.pop(name) for name in first if name in values]
        if rest is not UNSET:
            args += rest
        if self._extra is not None:
            values |= self._decode_extra(payload)
        return args, values

    def _put_results(self, values: dict[str, Any], results: Mapping[str, Any]) -> None:
        for name in self.item_types:
            if name in results:
                values[name] = results[name]
            elif type(None) not in typing.get_args(self.types[name]) if name in values else name in self.required:
                raise BadPayload(f"argument {name!r}: {getattr(self._results, '_refusal', '')}")

    def _decode_extra(self, payload: str) -> dict[str, Any]:
        known = msgspec.json.decode(payload)
        extra = {name: known[name] for name in known if name not in self._fields}
        for name, value in extra.items():
            try:
                extra |= msgspec.convert({name: value}, self._extra, dec_hook=_dec_hook)
            except ValidationError as bad:
                raise ValidationError(f"{bad} (argument {name!r})") from None
        return extra


def encode_call(task: str, values: Mapping[str, Any], limit: int) -> str:
    """A call's values as a payload. The error for a value that cannot be encoded names its argument."""
    try:
        data = encode(values, limit)
    except BadPayload:
        for name, value in values.items():
            try:
                encode(value)
            except BadPayload as bad:
                raise BadPayload(f"argument {name!r} of task {task!r} cannot be sent: {bad}") from None
        raise
    if len(data) > limit:
        raise BadPayload(
            f"the arguments of task {task!r} are {len(data):,} bytes, the limit is {limit:,} (payload_limit): "
            "keep big data elsewhere and send its name"
        )
    return data.decode()


def encode_result(value: Any, limit: int) -> tuple[str | None, Failure | None]:
    """A result as text, or the failure if it cannot be stored: the work is done, so that does not fail the job."""
    if value is None:
        return None, None
    try:
        data = encode(value, limit)
    except BaseException as bad:  # code of the value's own class may run here, and raise anything
        return None, Failure("ResultLost", f"the result could not be kept: {_reason(bad)}")
    if len(data) > limit:
        return None, Failure("ResultLost", f"the result is {len(data):,} bytes, the limit is {limit:,} (result_limit)")
    return data.decode(), None


def _reason(error: BaseException) -> str:
    """The error's message as text that every store can hold, even if its __str__ raises."""
    try:
        text = str.replace(str(error), "\x00", "\\x00")
    except BaseException as broken:
        return f"{type(error).__name__}, whose __str__ raised {type(broken).__name__}"
    return text.encode("utf-8", "backslashreplace").decode()[:1000]


class ResultCodec:
    """Decodes the results of one function."""

    def __init__(self, fn: Callable[..., Any] | None, task: str, type: Any = Any) -> None:
        """`type` is that of the results if there is no function."""
        self.type = type if fn is None else _hints(fn, task).get("return", Any)
        self._decode = type_decoder(self.type)

    def decode(self, text: str | None) -> Any:
        if text is None:
            return None
        try:
            return self._decode(text)
        except ValidationError:
            # The return annotation was not true: the plain data is better than nothing.
            return msgspec.json.decode(text)


def type_decoder(hint: Any) -> Callable[[bytes | str], Any]:
    """Decodes a value of this type; of one that JSON cannot carry, any value."""
    try:
        return msgspec.json.Decoder(hint, dec_hook=_dec_hook).decode
    except (TypeError, ValueError):
        return msgspec.json.Decoder(Any).decode


def _title(wanted: Any) -> dict[str, Any]:
    return {"title": getattr(wanted, "__name__", str(wanted))}


def _deep_schema(wanted: Any) -> dict[str, Any]:
    """The schema of a pydantic model with its fields, which msgspec does not know."""
    if hasattr(wanted, "model_json_schema"):
        found: dict[str, Any] = wanted.model_json_schema()
        return found
    return _title(wanted)


def json_schema(hint: Any) -> dict[str, Any]:
    """The JSON schema of a type."""
    return msgspec.json.schema(hint, schema_hook=_deep_schema)


def _canonical(schema: Any) -> Any:
    """The schema without docstrings and the order of parameters, which do not affect what payloads are accepted."""
    if isinstance(schema, list):
        return [_canonical(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    prose = isinstance(schema.get("description"), str)  # else it is a property of that name
    kept = {name: _canonical(value) for name, value in schema.items() if name != "description" or not prose}
    if isinstance(required := kept.get("required"), list):
        kept["required"] = sorted(required)
    return kept


def _shown(parameter: inspect.Parameter) -> str:
    """A parameter as declared, without the value of its default: "cc: list[str] = …"."""
    stars = "*" * (parameter.kind is parameter.VAR_POSITIONAL) + "**" * (parameter.kind is parameter.VAR_KEYWORD)
    wanted, optional = parameter.annotation, parameter.default is not parameter.empty
    if wanted is parameter.empty:
        return f"{stars}{parameter.name}{'=…' * optional}"
    text = wanted if isinstance(wanted, str) else inspect.formatannotation(wanted).replace("typing.", "")
    return f"{stars}{parameter.name}: {text}{' = …' * optional}"


def _hints(fn: Callable[..., Any], task: str) -> dict[str, Any]:
    target: Any = fn.func if isinstance(fn, partial) else fn
    if not inspect.isroutine(target):
        target = type(target).__call__  # an object that can be called
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception as bad:
        raise BadTask(f"task {task!r} has annotations that cannot be resolved: {bad}") from None


def _signature(fn: Callable[..., Any], task: str) -> inspect.Signature:
    try:
        return inspect.signature(fn)
    except (TypeError, ValueError) as bad:
        raise BadTask(f"task {task!r} has no signature that can be read: {bad}") from None


def is_async(fn: Callable[..., Any]) -> bool:
    """Whether calling the function returns a coroutine."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004
