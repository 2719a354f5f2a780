"""How every administrative verb runs: a conversation over one connection."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NoReturn

from transport.cli._access import take_access
from transport.cli._options import CONNECTING, parameters_of, with_parameters
from transport.cli._run import run

if TYPE_CHECKING:
    from transport.clients.administration import Administration


def administer(
    verb: str,
    where: dict[str, Any],
    talk: Callable[[Administration], Coroutine[Any, Any, None]],
    *,
    data_from_stdin: bool = False,
    any_node: bool = False,
) -> NoReturn:
    """Run ``talk`` with a connection to the broker that ``where`` names, in the parameters of ``CONNECTING``; then exit.

    With ``any_node`` a broker of a cluster will do that does not lead: see `Administration`.
    """
    access = take_access(verb, where, data_from_stdin=data_from_stdin)

    async def main() -> int:
        from transport.clients.administration import Administration  # noqa: PLC0415 - not needed for --help

        async with Administration(**where, access=access, any_node=any_node) as administration:
            await talk(administration)
        return 0

    run(verb, main)


def admin_command(
    verb: str, *, any_node: bool = False
) -> Callable[[Callable[..., Coroutine[Any, Any, None]]], Callable[..., None]]:
    """A typer command of a function that is given a connection, then its own parameters; it also has where to connect, and for how long."""

    def made(act: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
        def command(**given: Any) -> None:
            where = {name: given.pop(name) for name in CONNECTING}
            administer(verb, where, lambda administration: act(administration, **given), any_node=any_node)

        return with_parameters(command, act, parameters_of(act) | CONNECTING)

    return made
