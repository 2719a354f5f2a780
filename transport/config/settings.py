"""Every setting of a broker: where it stands in the settings file, on the command line and in the environment, and how it is written.

One table serves all of them, so that an option exists everywhere or nowhere. An option called ``sync_interval`` is ``--sync-interval``
on the command line and ``PENSTOCK_SYNC_INTERVAL`` in the environment. docs/configuration.md is the reference.
"""

from __future__ import annotations

import math
import os.path
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from actors import QueueSettings
from actors.queue.vocabulary.settings import NEVER as NEVER  # noqa: PLC0414 - given here too
from actors.queue.vocabulary.settings import NO_LIMIT, OVERFLOWS, QUEUE_SETTINGS, Setting, Unit
from transport.config.config import (
    CLIENT_CERTIFICATES,
    CLUSTER_MODES,
    DEFAULT_DIRECTORY,
    DEFAULT_HTTP_ADDRESS,
    IN_MEMORY,
    LOG_FORMATS,
    LOG_LEVELS,
    OF_QUEUES,
    SYNC_POLICIES,
    WITH_JOURNAL,
    BrokerConfig,
)
from transport.config.units import (
    BEYOND,
    parse_count,
    parse_duration,
    parse_share,
    parse_size,
    show_duration,
    show_size,
)
from transport.config.virtual_hosts import parse_virtual_hosts, show_virtual_hosts
from transport.wire.names import check_name

ENVIRONMENT_PREFIX = "PENSTOCK_"
CONFIG_VARIABLE = f"{ENVIRONMENT_PREFIX}CONFIG"
QUEUES_VARIABLE = f"{ENVIRONMENT_PREFIX}QUEUES"
QUEUE_FLAG = "--queue"
QUEUE_DEFAULTS = "queue_defaults"
"""The section of what holds for every queue that is not declared otherwise."""
LEAST_SECONDS = 0.001
"""The shortest time of a queue's setting but 0, which means something else: the protocol has milliseconds."""
WITHOUT_LIMIT: Final = math.inf
"""What a source says of a limit that there shall be none of: None would leave it to the broker."""


class Kind(NamedTuple):
    """How the values of a setting are written.

    Attributes:
        metavar: in help texts.
        wanted: what the file may have, for the complaint about something else.
        types: of the file's values, beside strings.
        strings: whether the file may have a string, which ``parse`` then takes.
        parse: a text's value; raises ValueError.
        show: a value's text, which ``parse`` takes.
    """

    metavar: str
    wanted: str
    types: tuple[type, ...]
    strings: bool
    parse: Callable[[str], Any]
    show: Callable[[Any], str]

    def convert(self, value: object) -> Any:
        """A value of the file as `BrokerConfig` or `QueueSettings` have it.

        Raises:
            ValueError: it is of another kind.
        """
        if isinstance(value, str) and self.strings:
            return self.parse(value)
        if isinstance(value, int | float) and BEYOND <= abs(value) != math.inf:
            raise ValueError("its number is beyond every limit")
        # Exactly these types: to Python a truth is a number too.
        if type(value) not in self.types or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(
                f"{str(value).lower() if value is True or value is False else repr(value):.60} is not {self.wanted}"
            )
        return value


def _flag(text: str) -> bool:
    from transport.wire.truths import parse_flag  # noqa: PLC0415 - the help needs none of it

    return parse_flag(text)


def _text(metavar: str) -> Kind:
    return Kind(metavar, "a text in quotes", (), True, str, str)


def _text_or_none(metavar: str) -> Kind:
    """An empty text is None."""
    return Kind(metavar, "a text in quotes", (), True, lambda text: text or None, lambda text: text or "")


def _or_none(kind: Kind, word: str) -> Kind:
    """As ``kind``, and ``word`` for none: None, or of a limit `WITHOUT_LIMIT`."""
    none = WITHOUT_LIMIT if word == NO_LIMIT else None

    def parse(text: str) -> Any:
        return none if text.strip() == word else kind.parse(text)

    def show(value: Any) -> str:
        return word if value is None or value == WITHOUT_LIMIT else kind.show(value)

    return Kind(f"{kind.metavar}|{word}", f'{kind.wanted}, or "{word}"', kind.types, True, parse, show)


COUNT = Kind("N", "a whole number", (int,), False, parse_count, str)
SIZE = Kind("SIZE", 'a number of bytes or a text such as "64MiB"', (int,), True, parse_size, show_size)
DURATION = Kind(
    "TIME", 'a number of seconds or a text such as "10s"', (int, float), True, parse_duration, show_duration
)
SHARE = Kind("SHARE", 'a number from 0 to 1 or a text such as "60%"', (int, float), True, parse_share, str)
FLAG = Kind("", "true or false", (bool,), False, _flag, lambda flag: str(flag).lower())
ADDRESS = _text("H:P")
NONE = "none"
"""For an address: nowhere."""
ADDRESS_OR_NONE = Kind(
    "H:P",
    "a text in quotes",
    (),
    True,
    lambda text: None if text in ("", NONE) else text,
    lambda address: address or NONE,
)
FOLDER = _text("DIR")
FILE = Kind(
    "FILE", "a text in quotes", (), True, lambda text: os.path.expanduser(text) or None, lambda name: name or ""
)
VIRTUAL_HOSTS = Kind("V[=P],...", "a text in quotes", (), True, parse_virtual_hosts, show_virtual_hosts)
CLIENTS = _text("|".join(CLIENT_CERTIFICATES))
SYNC = _text("|".join(SYNC_POLICIES))
LEVEL = _text("|".join(LOG_LEVELS))
FORMAT = _text("|".join(LOG_FORMATS))
OVERFLOW = _text("|".join(OVERFLOWS))
QUEUE_NAME = _text_or_none("Q")
EXCHANGE_NAME = _text_or_none("X")
CLUSTER, NODE, NODES, NODE_ADDRESS, HOST = map(_text_or_none, ("WHERE", "NAME", "N=H,...", "H:P", "HOST"))
MODE = _text("|".join(CLUSTER_MODES))
ROUTING_KEY = _text_or_none("KEY")
KINDS = {
    Unit.COUNT: COUNT,
    Unit.BYTES: SIZE,
    Unit.SECONDS: DURATION,
    Unit.FLAG: FLAG,
    Unit.CHOICE: OVERFLOW,
    Unit.QUEUE: QUEUE_NAME,
    Unit.EXCHANGE: EXCHANGE_NAME,
    Unit.KEY: ROUTING_KEY,
}


class Option(NamedTuple):
    """One setting of the broker.

    Attributes:
        name: unique; the command line's and the environment's names come from it.
        section: its table in the file.
        key: its name there.
        field: of `BrokerConfig`.
        kind: how it is written.
        help: what it does, for ``--help``.
    """

    name: str
    section: str
    key: str
    field: str
    kind: Kind
    help: str

    @property
    def flag(self) -> str:
        """On the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        """In the environment."""
        return ENVIRONMENT_PREFIX + self.name.upper()

    @property
    def path(self) -> str:
        """In the file: ``section.key``."""
        return f"{self.section}.{self.key}"


def _option(section: str, key: str, kind: Kind, text: str, *, name: str = "", field: str = "") -> Option:
    name = name or key
    return Option(name, section, key, field or name, kind, text)


def _of_queues(setting: Setting) -> Option:
    """The broker's setting for queues that are not declared otherwise; those that others have too go by a longer name."""
    kind = _or_none(KINDS[setting.unit], setting.word) if setting.none == 0 else KINDS[setting.unit]
    return _option(QUEUE_DEFAULTS, setting.name, kind, setting.help, name=OF_QUEUES.get(setting.name, ""))


DATA = _option("broker", "data", FOLDER, "Where the journal is kept.", field="directory")
MEMORY = _option("broker", "memory", FLAG, "Keep everything in memory only; excludes --data.", field="directory")
"""These two say one thing, so they are resolved together."""

HTTP = _option("http", "address", ADDRESS_OR_NONE, "Where HTTP and the console are; none for nowhere.", name="http")

OPTIONS: tuple[Option, ...] = (
    _option("broker", "send_address", ADDRESS, "Where senders connect; port 0 takes any."),
    _option("broker", "receive_address", ADDRESS, "Where receivers connect; port 0 takes any."),
    DATA,
    MEMORY,
    _option("broker", "heartbeat", DURATION, "Between signs of life on a quiet connection."),
    _option("broker", "drain", DURATION, "For an orderly end when told to stop; 0 for none."),
    _option("broker", "log_level", LEVEL, "The least that is logged."),
    _option("broker", "log_format", FORMAT, "How a line of the log is written."),
    _option("security", "users_file", FILE, "Who may come in, as `penstock user` keeps it; none lets everybody in."),
    _option("security", "insecure", FLAG, "Let other machines in without users or TLS."),
    _option("security", "tls_certificate", FILE, "The broker's certificate with its chain, PEM; none for no TLS."),
    _option("security", "tls_key", FILE, "Its key, where the certificate's file does not have it."),
    _option("security", "tls_client_ca", FILE, "What signs the certificates of clients; none to ask for none."),
    _option("security", "tls_client_certificates", CLIENTS, "Whether each client has to show a certificate."),
    HTTP,
    _option(
        "amqp", "address", ADDRESS_OR_NONE, "Where AMQP 0-9-1 is spoken in plain; nowhere by default.", name="amqp"
    ),
    _option("amqp", "tls_address", ADDRESS_OR_NONE, "Where it is spoken under TLS; nowhere by default.", name="amqps"),
    _option(
        "amqp",
        "virtual_hosts",
        VIRTUAL_HOSTS,
        "Virtual hosts beside /, and what names in each begin with if not with its own and /.",
        name="amqp_virtual_hosts",
    ),
    _option("amqp", "max_message_bytes", SIZE, "Of one message's body there, at most.", name="amqp_max_message_bytes"),
    _option("smq", "source", ADDRESS_OR_NONE, "Where SMQ's sources connect; nowhere by default.", name="smq_source"),
    _option("smq", "sink", ADDRESS_OR_NONE, "Where SMQ's sinks connect; nowhere by default.", name="smq_sink"),
    _option("smq", "queue", _text("Q"), "The queue of both; exclusive where sinks connect.", name="smq_queue"),
    _option("limits", "max_connections", COUNT, "Connections at one time, as far as open files allow."),
    _option("limits", "max_unauthenticated", COUNT, "Connections that have not shown who they are; more wait."),
    _option("limits", "max_queues", COUNT, "Queues at one time."),
    _option(
        "limits",
        "memory_watermark",
        SHARE,
        "Share of memory above which caches are off, or senders wait with --memory.",
    ),
    _option("limits", "disk_floor", SIZE, "Free space on the journal's disk under which senders wait."),
    _option("limits", "transaction_timeout", DURATION, "After which what nobody commits or stages on is discarded."),
    _option("journal", "sync", SYNC, "When the journal is synced: before a confirmation, every so often, or never."),
    _option("journal", "sync_interval", DURATION, "Between syncs with --sync interval."),
    _option("journal", "segment_bytes", SIZE, "Size of one file of the journal."),
    _option("journal", "cache_bytes", SIZE, "Recent batches kept in memory; 0 keeps none."),
    _option("cluster", "register", CLUSTER, "The cluster that this is a node of (docs/cluster.md).", name="cluster"),
    _option("cluster", "node", NODE, "The node's name.", name="node", field="cluster_node"),
    _option("cluster", "members", NODES, "What it begins with, where --cluster lists none.", name="cluster_members"),
    _option("cluster", "address", NODE_ADDRESS, "Where the other nodes connect.", name="cluster_address"),
    _option(
        "cluster", "advertise", HOST, "By which others reach this node.", name="advertise", field="cluster_advertise"
    ),
    _option("cluster", "mode", MODE, "What a confirmation waits for, in a cluster that begins.", name="cluster_mode"),
    _option("cluster", "secret_file", FILE, "What its nodes know each other by.", name="cluster_secret_file"),
    _option(
        "cluster", "certificate", FILE, "The node's for the others, PEM; none for no TLS.", name="cluster_certificate"
    ),
    _option("cluster", "key", FILE, "Its key, where the certificate's file does not have it.", name="cluster_key"),
    _option("cluster", "ca", FILE, "What signs the certificates of its nodes.", name="cluster_ca"),
    _option("cluster", "log_bytes", SIZE, "Of the log, kept for nodes that lag.", name="cluster_log_bytes"),
    _option(
        "cluster",
        "auto_heal",
        FLAG,
        "Fill this node anew by itself where it meets damage.",
        name="auto_heal",
        field="cluster_auto_heal",
    ),
    *(_of_queues(setting) for setting in QUEUE_SETTINGS),
)
"""Every setting but the queues declared one by one."""

SECTIONS = tuple(dict.fromkeys(option.section for option in OPTIONS))
QUEUES = "queues"
"""The section whose tables are queues: ``[queues.orders]``."""
QUEUE_OPTIONS: dict[str, Option] = {option.key: option for option in OPTIONS if option.section == QUEUE_DEFAULTS}
"""What a queue can be declared with, by its name in `QueueSettings`."""

_DEFAULT = BrokerConfig()
_TIMES = {setting.name for setting in QUEUE_SETTINGS if setting.unit is Unit.SECONDS}


def default_text(option: Option) -> str:
    """What is in force when nobody says anything, for ``--help``."""
    if option is DATA:
        return DEFAULT_DIRECTORY
    if option is MEMORY:
        return FLAG.show(False)
    if option is HTTP:
        return DEFAULT_HTTP_ADDRESS
    value = getattr(_DEFAULT, option.field)
    if value is None and option.kind is ADDRESS_OR_NONE:
        return ""
    if value is None and option.key in IN_MEMORY:
        return f"{option.kind.show(WITH_JOURNAL[option.key])}; {option.kind.show(IN_MEMORY[option.key])} in memory"
    return option.kind.show(value)


def check_queue_setting(key: str, value: Any) -> None:
    """Judge one setting of a queue by itself.

    Raises:
        ValueError: it cannot be, whatever the others are.
    """
    if key in _TIMES and value and 0 < value < LEAST_SECONDS:
        raise ValueError(f"{value * 1000:g} ms is less than {show_duration(LEAST_SECONDS)}, the shortest that is kept")
    if key == "dead_letter_queue" and value is not None:
        check_name(value, "dead-letter queue")
    if key == "dead_letter_exchange" and value is not None:
        check_name(value, "dead-letter exchange")
    # With max_receives there is something for a dead-letter queue to receive, which is judged when all are known. So it is with a key.
    base: dict[str, Any] = {"max_receives": 1}
    if key == "dead_letter_routing_key":
        base["dead_letter_exchange"] = "x"
    QueueSettings(**(base | {key: as_setting(value)}))


def as_setting(value: Any) -> Any:
    """A value of a source as `QueueSettings` has it."""
    return None if value == WITHOUT_LIMIT else value
