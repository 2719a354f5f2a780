"""What a handler takes, read from its parameters: the payload, decoded by its annotation, and the delivery where one is asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from transport.clients.delivery import Delivery
from transport.clients.handler_failures import text_of
from transport.consumer.decoding import Codec, Decode, decoder, name_of
from transport.errors import DeadLetterError, LocalProtocolError

MAX_PARAMETERS = 2
"""A payload and a `Delivery`."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """How a handler is called.

    Attributes:
        handler: its name, for errors.
        wants: for each parameter, whether it is the `Delivery`; else it is the payload.
        decode: what makes the payload into the annotation; None where bytes are wanted.
        kind: the annotation, as text.
    """

    handler: str
    wants: tuple[bool, ...]
    decode: Decode | None
    kind: str

    @property
    def wants_delivery(self) -> bool:
        """Whether it has to do with the delivery itself."""
        return any(self.wants)

    def of(self, delivery: Delivery) -> tuple[Any, ...]:
        """The arguments for ``delivery``.

        Raises:
            DeadLetterError: the payload cannot be decoded.
        """
        return tuple(delivery if wanted else self.payload(delivery) for wanted in self.wants)

    def payload(self, delivery: Delivery) -> Any:
        """The payload, decoded; errors as of `of`."""
        if self.decode is None:
            return delivery.payload
        try:
            return self.decode(delivery.payload)
        except MemoryError:
            raise  # it is not about the payload alone: with more room it may be decoded
        except Exception as error:
            # Whatever a decoder raises is about the payload: a library's errors, the program's own in __post_init__.
            text = " ".join(text_of(error).split())
            raise DeadLetterError(f"it cannot be decoded as {self.kind}: {text}") from error


def parameters_of(function: Callable[..., Any], codec: Codec | Decode, *, batch: bool) -> Parameters:
    """What ``function`` takes; of a ``batch`` handler, what its list is of.

    Raises:
        LocalProtocolError: no such handler can be called; the text says which are.
    """
    name = getattr(function, "__qualname__", None) or repr(function)
    try:
        inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise LocalProtocolError(f"handler {name}: Python cannot say what it takes ({error}): use a def") from error
    try:
        given = inspect.signature(function, eval_str=True).parameters.values()
    except Exception as error:  # whatever the text of an annotation raises
        raise LocalProtocolError(
            f"handler {name}: an annotation cannot be read ({text_of(error)}): define or import its class at the top of the module, "
            "not under TYPE_CHECKING or in a function"
        ) from error
    taken = [each for each in given if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    taken = [each for each in taken if each.default is each.empty] or taken[:1]
    others = [each.name for each in given if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    annotations = [Delivery if each.annotation is each.empty else each.annotation for each in taken]
    if batch:
        if len(taken) != 1 or others:
            raise LocalProtocolError(
                f"batch handler {name}: it takes one argument, a list; list[Delivery] or list[Order], say"
            )
        annotations = [_element(name, annotations[0])]
    elif (
        others
        or not 1 <= len(taken) <= MAX_PARAMETERS
        or (len(taken) == MAX_PARAMETERS and annotations.count(Delivery) != 1)
    ):
        raise LocalProtocolError(
            f"handler {name}: it takes a payload, as in (order: Order), a Delivery, or both: (order: Order, delivery: Delivery)"
        )
    wants = tuple(each is Delivery for each in annotations)
    payloads = [each for each in annotations if each is not Delivery]
    try:
        decode = decoder(payloads[0], codec) if payloads else None
    except LocalProtocolError as error:
        raise LocalProtocolError(f"handler {name}: {error}") from error
    return Parameters(name, wants, decode, name_of(payloads[0]) if payloads else "Delivery")


def _element(name: str, annotation: Any) -> Any:
    """What the list is of; deliveries where it is not said."""
    if annotation in (Delivery, list, Sequence):
        return Delivery
    if get_origin(annotation) not in (list, Sequence):
        raise LocalProtocolError(
            f"batch handler {name}: it takes a list; list[Delivery] or list[Order], say, not {name_of(annotation)}"
        )
    return get_args(annotation)[0]
