"""HTTP where nobody has asked for it: a broker listens at the usual address if it can, and goes on without where it cannot."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from transport.broker.check import check_addresses
from transport.config.config import DEFAULT_HTTP_ADDRESS
from transport.config.settings import HTTP
from transport.config.settings_sources import DEFAULT

if TYPE_CHECKING:
    from transport.config.config import BrokerConfig
    from transport.config.settings_sources import Resolved


def with_http_if_possible(settings: Resolved) -> tuple[BrokerConfig, str | None]:
    """What a broker is to run with, and why that is without HTTP; None where it is as the settings say.

    What somebody has asked for stays as it is: where it cannot be, the broker does not start.
    """
    config = settings.config
    if config.http is None or not is_default(settings):
        return config, None
    without = replace(config, http=None)
    if find_spec("aiohttp") is None:
        return without, "it is without HTTP and its console, which need the extra http: pip install 'penstock-mq[http]'"
    alone = replace(
        without, send_address=DEFAULT_HTTP_ADDRESS, receive_address="127.0.0.1:0", smq_source=None, smq_sink=None
    )
    if any(problem.error is not None for problem in check_addresses(alone)):
        return without, (
            f"it is without HTTP and its console, for {config.http} is in use: take another with {HTTP.flag}, or say --no-http"
        )
    return config, None


def is_default(settings: Resolved) -> bool:
    """Whether nobody has said where HTTP is to be."""
    return any(each.key == HTTP.path and each.origin == DEFAULT for each in settings.in_force)
