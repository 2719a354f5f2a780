"""RabbitMQ's definitions as ``rabbitmqctl export_definitions`` and its management export them, of a whole broker or of a virtual host.

What is read is looked at field by field, so that a file that is none says where it is none. Nothing of it is judged here: what of it there
can be is `definitions`' business.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeVar

from transport.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_FILE_BYTES: Final = 64 * 2**20
"""Of a file: some 200,000 queues with their bindings."""
OPERATOR: Final = "operator_policy"
"""The component of parameters that are policies of operators."""
ORIGINAL: Final = "original_vhost_name"
"""Of a file of one virtual host, where RabbitMQ 4 says which."""
SECTIONS: Final = ("users", "vhosts", "permissions", "parameters", "policies", "queues", "exchanges", "bindings")
"""A file has one of these at least."""

T = TypeVar("T")
Facts = dict[str, Any]


class DefinitionsError(TransportError, ValueError):
    """A file is no file of definitions; the text says where."""

    code = "protocol-error"


class DefinedExchange(NamedTuple):
    """An exchange of the file."""

    virtual_host: str
    name: str
    kind: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: Facts


class DefinedQueue(NamedTuple):
    """A queue of the file; ``kind`` is ``classic``, ``quorum`` or ``stream``."""

    virtual_host: str
    name: str
    durable: bool
    auto_delete: bool
    arguments: Facts
    kind: str


class DefinedBinding(NamedTuple):
    """A binding of the file."""

    virtual_host: str
    source: str
    destination: str
    to_exchange: bool
    key: str
    arguments: Facts


class DefinedPolicy(NamedTuple):
    """A policy of the file, or of those of operators among its parameters.

    Attributes:
        virtual_host: where it counts.
        name: its own.
        pattern: a regular expression, of names.
        applies_to: ``queues``, ``classic_queues``, ``quorum_queues``, ``streams``, ``exchanges`` or ``all``.
        priority: of those that match a name the one counts whose is greatest.
        definition: what it says, by RabbitMQ's keys.
        of_operator: whether it is one of an operator's, which counts beside the others.
    """

    virtual_host: str
    name: str
    pattern: str
    applies_to: str
    priority: int
    definition: Facts
    of_operator: bool


class DefinedPermission(NamedTuple):
    """What a user may do in a virtual host: three regular expressions, of names."""

    virtual_host: str
    user: str
    configure: str
    write: str
    read: str


class Definitions(NamedTuple):
    """What a file has.

    Attributes:
        version: of the RabbitMQ that has written it; empty where it does not say.
        virtual_hosts: their names.
        default_types: what kind of queue a virtual host makes of one whose client names none, where it says so.
        users: their names.
        permissions: theirs.
        topic_permissions: how many there are.
        parameters: how many there are beside the policies of operators, by component.
        exchanges, defined_queues, bindings, policies: as they stand there.
    """

    version: str
    virtual_hosts: tuple[str, ...]
    default_types: Mapping[str, str]
    users: tuple[str, ...]
    permissions: tuple[DefinedPermission, ...]
    topic_permissions: int
    parameters: Mapping[str, int]
    exchanges: tuple[DefinedExchange, ...]
    defined_queues: tuple[DefinedQueue, ...]
    bindings: tuple[DefinedBinding, ...]
    policies: tuple[DefinedPolicy, ...]


def read_definitions(data: bytes, name: str, virtual_host: str | None = None) -> Definitions:
    """What a file defines.

    Args:
        data: its bytes.
        name: what it is called, for messages.
        virtual_host: of what names none, as in a file of one virtual host; None for the one that the file says that it is of, else ``/``.

    Raises:
        DefinitionsError: it is too large, is no JSON, or has something that is not what it has to be.
    """
    if len(data) > MAX_FILE_BYTES:
        raise DefinitionsError(f"{name}: is larger than {MAX_FILE_BYTES} bytes; is it a file of definitions?")
    try:
        document = json.loads(data.decode("utf-8-sig"), parse_constant=_no_number, parse_float=_float)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DefinitionsError(f"{name}:{line}: is not UTF-8: {error.reason} {data[error.start]:#04x}") from error
    except json.JSONDecodeError as error:
        raise DefinitionsError(f"{name}:{error.lineno}:{error.colno}: is no JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise DefinitionsError(f"{name}: is no JSON that can be read: {error}") from error
    if not isinstance(document, dict) or not any(section in document for section in SECTIONS):
        raise DefinitionsError(
            f"{name}: has no definitions: it is to be an object with {', '.join(SECTIONS)}, as RabbitMQ exports it"
        )
    place = _Place(name, "", document)
    return _Reading(place, place.text(ORIGINAL, "/") if virtual_host is None else virtual_host).definitions()


class _Place:
    """An object of the file, and where it stands."""

    __slots__ = ("_facts", "_file", "_path")

    def __init__(self, file: str, path: str, facts: Facts) -> None:
        self._file = file
        self._path = path
        self._facts = facts

    def text(self, key: str, default: str | None = None) -> str:
        found = self._value(key, str, "a text", default)
        try:
            found.encode()
        except UnicodeEncodeError:
            raise self._wrong(key, "has half a character, and is no text") from None
        return found

    def flag(self, key: str, default: bool) -> bool:
        return self._value(key, bool, "true or false", default)

    def number(self, key: str, default: int) -> int:
        found = self._facts.get(key, default)
        if type(found) is not int:
            raise self._wrong(key, f"is {_shown(found)}, not a whole number")
        return found

    def table(self, key: str) -> Facts:
        found = self._facts.get(key)
        if found is None or found == []:
            # An empty object is written as a list by some versions.
            return {}
        table = self._value(key, dict, "an object")
        try:
            json.dumps(table, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise self._wrong(key, "has half a character, and is no text") from None
        except RecursionError:
            raise self._wrong(key, "has too many objects in one another") from None
        return table

    def each(self, section: str) -> list[_Place]:
        """The objects of a list; none where it is not there."""
        found = self._facts.get(section)
        if found is None:
            return []
        if not isinstance(found, list):
            raise self._wrong(section, f"is {_shown(found)}, not a list")
        places = []
        for index, facts in enumerate(found):
            path = f"{self._at(section)}[{index}]"
            if not isinstance(facts, dict):
                raise DefinitionsError(f"{self._file}: {path} is {_shown(facts)}, not an object")
            places.append(_Place(self._file, path, facts))
        return places

    def inside(self, key: str) -> _Place:
        """An object within this one."""
        return _Place(self._file, self._at(key), self._value(key, dict, "an object"))

    def has(self, key: str) -> bool:
        return self._facts.get(key) is not None

    def _at(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def _value(self, key: str, kind: type[T], wanted: str, default: T | None = None) -> T:
        if key not in self._facts and default is not None:
            return default
        if key not in self._facts:
            where = self._path or "it"
            raise DefinitionsError(f"{self._file}: {where} has no {key}, which is {wanted}")
        found = self._facts[key]
        if not isinstance(found, kind):
            raise self._wrong(key, f"is {_shown(found)}, not {wanted}")
        return found

    def _wrong(self, key: str, what: str) -> DefinitionsError:
        return DefinitionsError(f"{self._file}: {self._at(key)} {what}")


class _Reading:
    """One file being read."""

    def __init__(self, document: _Place, virtual_host: str) -> None:
        self._document = document
        self._virtual_host = virtual_host

    def definitions(self) -> Definitions:
        document = self._document
        hosts = document.each("vhosts")
        parameters = document.each("parameters")
        others: dict[str, int] = {}
        for each in parameters:
            component = each.text("component")
            if component != OPERATOR:
                others[component] = others.get(component, 0) + 1
        if count := len(document.each("global_parameters")):
            others["global"] = count
        operators = [each for each in parameters if each.text("component") == OPERATOR]
        return Definitions(
            version=document.text("rabbitmq_version", document.text("rabbit_version", "")),
            virtual_hosts=tuple(each.text("name") for each in hosts),
            default_types={each.text("name"): kind for each in hosts if (kind := _default_type(each))},
            users=tuple(each.text("name") for each in document.each("users")),
            permissions=self._all("permissions", self._permission),
            topic_permissions=len(document.each("topic_permissions")),
            parameters=others,
            exchanges=self._all("exchanges", self._exchange),
            defined_queues=self._all("queues", self._queue),
            bindings=self._all("bindings", self._binding),
            policies=(
                *self._all("policies", lambda each: self._policy(each, each, of_operator=False)),
                *(self._policy(each, each.inside("value"), of_operator=True) for each in operators),
            ),
        )

    def _all(self, section: str, read: Callable[[_Place], T]) -> tuple[T, ...]:
        return tuple(read(each) for each in self._document.each(section))

    def _host(self, place: _Place) -> str:
        return place.text("vhost", self._virtual_host)

    def _exchange(self, place: _Place) -> DefinedExchange:
        return DefinedExchange(
            self._host(place),
            place.text("name"),
            place.text("type"),
            place.flag("durable", True),
            place.flag("auto_delete", False),
            place.flag("internal", False),
            place.table("arguments"),
        )

    def _queue(self, place: _Place) -> DefinedQueue:
        arguments = place.table("arguments")
        said = arguments.get("x-queue-type")
        kind = said if isinstance(said, str) else place.text("type", "classic")
        return DefinedQueue(
            self._host(place),
            place.text("name"),
            place.flag("durable", True),
            place.flag("auto_delete", False),
            arguments,
            kind,
        )

    def _binding(self, place: _Place) -> DefinedBinding:
        return DefinedBinding(
            self._host(place),
            place.text("source"),
            place.text("destination"),
            place.text("destination_type", "queue") == "exchange",
            place.text("routing_key", ""),
            place.table("arguments"),
        )

    def _policy(self, place: _Place, value: _Place, *, of_operator: bool) -> DefinedPolicy:
        return DefinedPolicy(
            self._host(place),
            place.text("name"),
            value.text("pattern"),
            value.text("apply-to", "all"),
            value.number("priority", 0),
            value.table("definition"),
            of_operator,
        )

    def _permission(self, place: _Place) -> DefinedPermission:
        return DefinedPermission(
            self._host(place), place.text("user"), place.text("configure"), place.text("write"), place.text("read")
        )


def _default_type(host: _Place) -> str:
    """Of a virtual host: it stands beside its name, or among its metadata, or nowhere, or is ``undefined``."""
    place = host.inside("metadata") if not host.has("default_queue_type") and host.has("metadata") else host
    kind = place.text("default_queue_type", "") if place.has("default_queue_type") else ""
    return "" if kind == "undefined" else kind


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def _float(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else f"{text[:57]}..."
