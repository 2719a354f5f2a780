"""From the bytes of a message to what a handler's annotation says: JSON or msgpack, checked by msgspec or pydantic where they are needed.

Neither of the two is imported before a handler needs it. Structs are msgspec's, models are pydantic's; dataclasses, `TypedDict` and
what has parameters (``list[Order]``) go to msgspec where it is installed, and else to pydantic.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable
from typing import Any, Literal, cast, get_args, get_origin

import msgpack

from transport.errors import LocalProtocolError

Decode = Callable[[bytes], Any]
"""From a payload to what the handler gets; raises whatever it likes for a payload that is no such thing."""
Codec = Literal["json", "msgpack"]
"""How payloads are written."""
JSON: Codec = "json"
MSGPACK: Codec = "msgpack"

ANYTHING = (Any, object)
PLAIN = (dict, list, str, int, float, bool, type(None))
"""What JSON and msgpack have by themselves; its kind is checked without a library."""
EXTRAS = "pip install 'penstock-mq[msgspec]' or 'penstock-mq[pydantic]'"


def decoder(annotation: Any, codec: Codec | Decode) -> Decode | None:
    """What makes a payload into ``annotation``; None for ``bytes``, which it is.

    Raises:
        LocalProtocolError: there is no such codec, or the annotation takes a library that is not installed; the text names the extra.
    """
    if annotation is bytes:
        return None
    if callable(codec):
        if inspect.iscoroutinefunction(codec):
            raise LocalProtocolError(
                f"a codec is a plain function of the payload, and {codec!r:.80} is a coroutine function"
            )
        return codec
    if codec not in get_args(Codec):
        raise LocalProtocolError(f"codec is {codec!r:.40}, not {JSON!r}, {MSGPACK!r} or a function of the payload")
    if annotation is str:
        return _text
    parse = _parse_json if codec == JSON else _parse_msgpack
    if annotation in ANYTHING:
        return parse
    if annotation is None:
        annotation = type(None)
    kind = get_origin(annotation) or annotation
    if kind in PLAIN and _says_nothing_of_its_inside(kind, get_args(annotation)):
        return _checked(parse, kind)
    return _by_library(annotation, codec)


def _says_nothing_of_its_inside(kind: Any, arguments: tuple[Any, ...]) -> bool:
    """So that no library is needed to check it: ``dict``, ``dict[str, Any]``, ``list[Any]``."""
    if kind is dict and arguments and arguments[0] is str:
        arguments = arguments[1:]
    return all(argument in ANYTHING for argument in arguments)


def name_of(annotation: Any) -> str:
    """An annotation as one would write it."""
    return (
        annotation.__name__
        if isinstance(annotation, type) and not get_args(annotation)
        else str(annotation).replace("typing.", "").replace("__main__.", "")
    )


def _text(payload: bytes) -> str:
    return payload.decode()


def _parse_json(payload: bytes) -> Any:
    return json.loads(payload)


def _parse_msgpack(payload: bytes) -> Any:
    return msgpack.unpackb(payload)


def _checked(parse: Decode, kind: type) -> Decode:
    # JSON has one kind of number: 3 is a float, too. True is no number.
    allowed = (int, float) if kind is float else (kind,)

    def decode(payload: bytes) -> Any:
        value = parse(payload)
        if type(value) not in allowed:
            raise TypeError(f"it is of type {type(value).__name__}, not {kind.__name__}")
        return kind(value) if kind is float else value

    return decode


def _by_library(annotation: Any, codec: Codec) -> Decode:
    """By pydantic for what has a model of it inside, else by msgspec, else by pydantic."""
    if not _of_pydantic(annotation) and (msgspec := _imported("msgspec")) is not None:
        try:
            return cast("Decode", getattr(msgspec, codec).Decoder(annotation).decode)
        except TypeError as error:
            raise LocalProtocolError(f"messages cannot be decoded as {name_of(annotation)}: {error}") from error
    pydantic = _imported("pydantic")
    if pydantic is None:
        raise LocalProtocolError(f"to decode messages as {name_of(annotation)} takes msgspec or pydantic: {EXTRAS}")
    try:
        adapter = pydantic.TypeAdapter(annotation)
    except pydantic.errors.PydanticUserError as error:
        why = " ".join(str(error).split())
        raise LocalProtocolError(f"messages cannot be decoded as {name_of(annotation)}: {why}") from error
    if codec == JSON:
        return cast("Decode", adapter.validate_json)
    return lambda payload: adapter.validate_python(_parse_msgpack(payload))


def _of_pydantic(annotation: Any) -> bool:
    """Whether pydantic has made it, or a part of it; who has made a model has imported pydantic."""
    if "pydantic" not in sys.modules:
        return False
    own = hasattr(annotation, "__pydantic_validator__") or hasattr(annotation, "__pydantic_core_schema__")
    return own or any(_of_pydantic(argument) for argument in get_args(annotation))


def _imported(name: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        return None
