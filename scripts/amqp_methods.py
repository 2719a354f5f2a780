"""Writes the modules of ``transport/gateways/amqp/`` that say what AMQP's methods are, from ``amqp_0_9_1.toml``.

    python scripts/amqp_methods.py                    # writes them
    python scripts/amqp_methods.py --check            # fails where they are not what the table says
    python scripts/amqp_methods.py --published FILE   # compares the table with a published specification, as JSON

The last takes the file ``amqp-rabbitmq-0.9.1.json`` that RabbitMQ publishes for generators of codecs.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scripts.formatted import formatted

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "scripts" / "amqp_0_9_1.toml"
ROOM = ROOT / "transport" / "gateways" / "amqp"
WRITE = "python scripts/amqp_methods.py"
HEAD = f"Written by `{WRITE}`; do not edit."

PYTHON = {
    "bit": "bool",
    "octet": "int",
    "short": "int",
    "long": "int",
    "longlong": "int",
    "timestamp": "int",
    "shortstr": "str",
    "longstr": "bytes",
    "table": "Table",
}
"""How a field of a type is given in Python."""
RESERVED = {"global": "global_"}
SECRET = {"response", "new-secret"}
"""Arguments that hold what proves who somebody is: they are not shown with their method."""


class Argument(NamedTuple):
    """One argument of a method; ``default`` is None where it has none, and as it stands in the table otherwise."""

    name: str
    type: str
    default: str | None

    @property
    def field(self) -> str:
        """Its name in Python."""
        name = self.name.replace("-", "_")
        return RESERVED.get(name, name)

    @property
    def value(self) -> Any:
        """Its default in Python; of a table the empty one."""
        assert self.default is not None
        if self.type == "bit":
            return self.default == "1"
        if self.type == "table":
            return {}
        return self.default if self.type in {"shortstr", "longstr"} else int(self.default)

    @property
    def declared(self) -> str:
        """Its line in a class."""
        line = f"{self.field}: {PYTHON[self.type]}"
        if self.default is None:
            return f"{line} = field(repr=False)" if self.name in SECRET else line
        value = self.value
        if self.type == "table":
            return f"{line} = EMPTY_TABLE"
        return f"{line} = {value.encode()!r}" if self.type == "longstr" else f"{line} = {value!r}"


class Described(NamedTuple):
    """One method, and in which module it is."""

    module: str
    of: str
    name: str
    ids: tuple[int, int]
    arguments: tuple[Argument, ...]
    answers: tuple[str, ...]
    content: bool

    @property
    def both_ids(self) -> int:
        """Both of its numbers in one, as on the wire."""
        return self.ids[0] << 16 | self.ids[1]

    @property
    def full_name(self) -> str:
        """As it is spoken of."""
        return f"{self.of}.{self.name}"

    @property
    def class_name(self) -> str:
        """Its class in Python."""
        return "".join(word.capitalize() for word in [self.of, *self.name.split("-")])


def argument(text: str) -> Argument:
    """What "name type = default" says."""
    named, equals, default = text.partition("=")
    name, kind = named.split()
    return Argument(name, kind, default.strip() if equals else None)


def methods(table: dict[str, Any]) -> list[Described]:
    """All methods, as the table has them."""
    return [
        Described(
            described["module"],
            of,
            name,
            (described["id"], number),
            tuple(map(argument, arguments)),
            tuple(answers),
            name in described.get("carry_content", ()),
        )
        for of, described in table["classes"].items()
        for number, name, arguments, answers in described["methods"]
    ]


def class_text(method: Described, index_of: dict[str, int]) -> Iterator[str]:
    """The lines of a method's class."""
    answers = [f"{method.of}.{name}" for name in method.answers]
    said = f"``{method.full_name}``"
    said += ", with a content" if method.content else ""
    said += f"; answered by {' or '.join(f'``{name}``' for name in answers)}" if answers else ""
    yield "@dataclass(frozen=True, slots=True, kw_only=True)"
    yield f"class {method.class_name}(Method):"
    yield f'    """{said}."""'
    yield ""
    yield f"    INDEX: ClassVar[int] = 0x{method.both_ids:08X}"
    yield f'    NAME: ClassVar[str] = "{method.full_name}"'
    if method.arguments:
        yield f'    LAYOUT: ClassVar[str] = "{" ".join(each.type for each in method.arguments)}"'
    if answers:
        yield f"    ANSWERS: ClassVar[tuple[int, ...]] = ({', '.join(f'0x{index_of[name]:08X}' for name in answers)},)"
    if method.content:
        yield "    CONTENT: ClassVar[bool] = True"
    yield from (f"    {each.declared}" for each in method.arguments)
    yield "\n"


def module_text(module: str, every: list[Described]) -> str:
    """A module with the methods of some classes."""
    of = [method for method in every if method.module == module]
    names = list(dict.fromkeys(method.of for method in of))
    said = f"{', '.join(names[:-1])} and {names[-1]}"
    arguments = [each for method in of for each in method.arguments]
    tables = {each.default is None for each in arguments if each.type == "table"}
    names_of_tables = ["Table", "EMPTY_TABLE"] if False in tables else ["Table"] if tables else []
    has_secret = any(each.name in SECRET for each in arguments)
    index_of = {method.full_name: method.both_ids for method in every}
    return "\n".join(
        [
            f'"""The methods of AMQP\'s classes {said}. {HEAD}"""',
            "from __future__ import annotations",
            f"from dataclasses import dataclass{', field' if has_secret else ''}",
            "from typing import ClassVar",
            "from transport.gateways.amqp.method import Method",
            *([f"from transport.gateways.amqp.tables import {', '.join(names_of_tables)}"] if tables else []),
            "\n",
            *(line for method in of for line in class_text(method, index_of)),
        ]
    )


def methods_text(table: dict[str, Any], every: list[Described]) -> str:
    """The module that has all methods by their numbers, and the properties."""
    modules = sorted({method.module for method in every})
    properties = [argument(text) for text in table["classes"]["basic"]["properties"]]
    return "\n".join(
        [
            f'"""All methods of AMQP by their numbers, and the properties of a message. {HEAD}"""',
            "from __future__ import annotations",
            "from typing import Final",
            f"from transport.gateways.amqp import {', '.join(modules)}",
            "from transport.gateways.amqp.method import Method",
            f"CLASS_IDS: Final = { ({name: each['id'] for name, each in table['classes'].items()})!r}",
            '"""The number of each class."""',
            "METHODS: Final[dict[int, type[Method]]] = {",
            *(f"    0x{method.both_ids:08X}: {method.module}.{method.class_name}," for method in every),
            "}",
            '"""By class and method number in one, as on the wire."""',
            "PROPERTIES: Final = (",
            *(f'    ("{each.field}", "{each.type}"),' for each in properties),
            ")",
            '"""Name and type of each property, the one with the highest flag first."""',
            "",
        ]
    )


def reply_codes_text(table: dict[str, Any]) -> str:
    """The module of reply codes."""
    codes = table["reply_codes"]
    named = {name: code for group in codes.values() for name, code in group.items()}
    return "\n".join(
        [
            f'"""The reply codes of AMQP, and what each of them closes. {HEAD}"""',
            "from __future__ import annotations",
            "from enum import IntEnum",
            "from typing import Final",
            "class ReplyCode(IntEnum):",
            '    """Why a channel or a connection is closed, or a message came back."""',
            *(f"    {name} = {code}" for name, code in sorted(named.items(), key=lambda each: each[1])),
            "",
            "CLOSES_CHANNEL: Final = frozenset({",
            *(f"    ReplyCode.{name}," for name in codes["closes_channel"]),
            "})",
            '"""Errors that close the channel they happen on; every other closes the connection."""',
            "",
        ]
    )


def texts() -> dict[str, str]:
    """What each module must be, by its file's name."""
    table = tomllib.loads(TABLE.read_text("utf-8"))
    every = methods(table)
    found = {module: module_text(module, every) for module in {method.module for method in every}}
    found |= {"methods": methods_text(table, every), "reply_codes": reply_codes_text(table)}
    return {f"{name}.py": formatted(text, ROOM / f"{name}.py", "I") for name, text in sorted(found.items())}


def differences(published: dict[str, Any]) -> list[str]:
    """Where the table says anything else than a published specification."""
    table = tomllib.loads(TABLE.read_text("utf-8"))
    domains = dict(published["domains"])

    def of(each: dict[str, Any]) -> tuple[str, str, Any]:
        return each["name"].replace(" ", "-"), each.get("type") or domains[each["domain"]], each.get("default-value")

    theirs = {
        f"{described['name']}.{method['name']}": (
            (described["id"], method["id"]),
            [of(each) for each in method["arguments"]],
            method.get("synchronous", False),
            method.get("content", False),
        )
        for described in published["classes"]
        for method in described["methods"]
    }
    ours = {
        method.full_name: (
            method.ids,
            [(each.name, each.type, None if each.default is None else each.value) for each in method.arguments],
            bool(method.answers),
            method.content,
        )
        for method in methods(table)
    }
    kinds = {"soft-error": "closes_channel", "hard-error": "closes_connection", None: "no_error"}
    codes = {
        (kinds[each.get("class")], each["name"].replace("-", "_"), each["value"])
        for each in published["constants"]
        if not each["name"].startswith("FRAME-") or each["name"] == "FRAME-ERROR"
    }
    our_codes = {(kind, name, code) for kind, named in table["reply_codes"].items() for name, code in named.items()}
    basic = next(each for each in published["classes"] if each["name"] == "basic")
    properties = [of(each)[:2] for each in basic["properties"]]
    our_properties = [argument(text)[:2] for text in table["classes"]["basic"]["properties"]]
    found = [
        f"{name}: published {theirs.get(name)}, here {ours.get(name)}"
        for name in sorted(theirs.keys() | ours.keys())
        if theirs.get(name) != ours.get(name)
    ]
    found += [f"reply codes: {each}" for each in sorted(codes ^ our_codes)]
    found += [f"properties: published {properties}, here {our_properties}"] if properties != our_properties else []
    return found


def main(arguments: list[str]) -> int:
    """Writes, checks or compares."""
    if arguments[:1] == ["--published"]:
        found = differences(json.loads(Path(arguments[1]).read_text("utf-8")))
        print("\n".join(found) or "the table says what is published")
        return bool(found)
    wrong = {name: text for name, text in texts().items() if not _is(ROOM / name, text)}
    if "--check" in arguments:
        if wrong:
            print(f"{', '.join(wrong)}: not what {TABLE.name} says; run {WRITE}")
        return bool(wrong)
    for name, text in wrong.items():
        (ROOM / name).write_text(text, "utf-8")
    return 0


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text("utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
