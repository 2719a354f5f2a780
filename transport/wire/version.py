"""Which version of the distribution is installed."""

from __future__ import annotations

DISTRIBUTION = "penstock-mq"
"""Its name on the package index; `penstock` there is somebody else's."""


def installed_version() -> str | None:
    """The version, or None where Penstock runs from its source."""
    # Reads every installed distribution's directory, so only for the one who asks.
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - start-up time

    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return None
