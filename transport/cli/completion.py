"""``penstock completion``: what a shell offers for the word that is being written. The scripts ask ``completion words`` at each key."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, Final

import typer

from transport.cli._usage import HELP_FLAGS

app = typer.Typer(help="Print what makes a shell complete verbs, options, files and names of queues and exchanges.")

BASH: Final = r"""# bash completion of penstock: eval "$(penstock completion bash)"
_penstock() {
    local IFS=$'\n' line kind=
    local -a words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    COMPREPLY=()
    while read -r line; do
        if [[ -z $kind ]]; then kind=$line; else COMPREPLY+=("${line%%$'\t'*}"); fi
    done < <("${COMP_WORDS[0]}" completion words bash -- "${words[@]}" 2>/dev/null)
    # Where no file is meant, none is offered in place of nothing.
    if [[ $kind != files ]]; then compopt +o bashdefault +o default 2>/dev/null; fi
    return 0
}
complete -o bashdefault -o default -F _penstock penstock
"""
ZSH: Final = r"""#compdef penstock
# zsh completion of penstock: eval "$(penstock completion zsh)", behind compinit
_penstock() {
    local -a reply offered
    local line value
    reply=("${(@f)$(${(Q)words[1]} completion words zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    for line in "${(@)reply[2,-1]}"; do
        value=${line%%$'\t'*}
        offered+=("${value//:/\\:}:${line#*$'\t'}")
    done
    if (( ${#offered} )); then _describe -t penstock penstock offered; fi
    if [[ ${reply[1]} == files ]]; then _files; fi
}
if [[ ${funcstack[1]} == _penstock ]]; then _penstock "$@"; else compdef _penstock penstock; fi
"""
FISH: Final = r"""# fish completion of penstock: penstock completion fish | source
function __penstock_words
    set -l words (commandline -opc)
    set -l reply ($words[1] completion words fish -- $words[2..-1] (commandline -ct) 2>/dev/null)
    if test "$reply[1]" = files
        __fish_complete_path (commandline -ct)
    end
    if test (count $reply) -gt 1
        printf '%s\n' $reply[2..-1]
    end
end
complete -c penstock -f -a '(__penstock_words)'
"""
SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}
BREAKS: Final = "=:"
"""Where bash takes words apart; what stands before them it keeps, and does not want again."""
FILES: Final = "files"
"""The first line of an answer where names of files fit too; `NAMES` where none does."""
NAMES: Final = "names"
FILE_WORDS: Final = ("FILE", "DIR", "PATH")
QUEUE_WORDS: Final = ("Q", "QUEUE", "FROM", "TO")
EXCHANGE_WORDS: Final = ("E", "EXCHANGE")
CHOICE: Final = "|"
"""Between the values in ``always|interval|never``."""

Offer = tuple[str, str]
"""A word, and what it stands for."""


@app.command("bash")
def bash() -> None:
    """Print the script for bash 4.4 or later."""
    typer.echo(BASH, nl=False)


@app.command("zsh")
def zsh() -> None:
    """Print the script for zsh, which wants `compinit` before it."""
    typer.echo(ZSH, nl=False)


@app.command("fish")
def fish() -> None:
    """Print the script for fish."""
    typer.echo(FISH, nl=False)


@app.command("words", hidden=True)
def words(
    context: typer.Context,
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="Whose script asks.")],
    line: Annotated[
        list[str] | None, typer.Argument(metavar="[WORD...]", help="Its words, up to the cursor's.")
    ] = None,
) -> None:
    """Print what fits at the end of a line: whether files do, then a word a line, and behind a tab what it is."""
    kind, offers = complete(context.find_root().command, line or [""], split=shell == "bash")
    sys.stdout.write("\n".join([kind, *(f"{word}\t{' '.join(text.split())}" for word, text in offers), ""]))


def complete(command: Any, line: list[str], *, split: bool = False) -> tuple[str, list[Offer]]:
    """What fits in the place of the last of the words in ``line``, which may be empty: whether files do, and which words.

    Args:
        command: the whole command.
        line: the words behind the program's name, up to the cursor.
        split: whether they come from bash, which takes words apart at `BREAKS` and wants only what is behind the last of these.
    """
    *before, current = _joined(line) if split else line
    command, positional, option, said = _walked(command, before)
    offers: list[Offer] = []
    kind = NAMES
    if command is None:
        pass
    elif option is None and current.startswith("--") and "=" in current:
        name, _, value = current.partition("=")
        option = _option(command, name)
        kind, offers = _values(option, value, said)
        offers = [(f"{name}={word}", text) for word, text in offers]
    elif option is not None:
        kind, offers = _values(option, current, said)
    elif current.startswith("-"):
        kind, offers = NAMES, _options(command, said)
    elif hasattr(command, "commands"):
        kind, offers = NAMES, _parts(command)
    else:
        kind, offers = _values(_argument(command, positional), current, said)
    offers = [(word, text) for word, text in offers if word.startswith(current)]
    if split and (kept := max(current.rfind(mark) for mark in BREAKS) + 1):
        offers = [(word[kept:], text) for word, text in offers]
    return kind, offers


def _joined(line: list[str]) -> list[str]:
    """The words as they stand on the line: bash makes several of ``--queue=a:b``."""
    words: list[str] = []
    joins = False
    for word in line:
        is_break = bool(word) and set(word) <= set(BREAKS)
        if words and (joins or is_break):
            words[-1] += word
        else:
            words.append(word)
        joins = is_break
    return words


def _walked(command: Any, before: list[str]) -> tuple[Any, int, Any, dict[str, str]]:
    """The verb that ``before`` leads to, how many arguments it has, the option that waits for its value, and the options said."""
    positional, waiting, plain = 0, None, False
    said: dict[str, str] = {}
    for word in before:
        if waiting is not None:
            said[waiting.name], waiting = word, None
        elif word == "--" and not plain:
            plain = True
        elif word.startswith("-") and word != "-" and not plain:
            name, equals, value = word.partition("=")
            option = _option(command, name)
            if option is not None:
                said[option.name] = value
                waiting = None if equals or option.is_flag else option
        elif hasattr(command, "commands"):
            if word not in command.commands:
                # What stands behind a verb that there is not can be nothing that is known.
                return None, positional, None, said
            command = command.commands[word]
        else:
            positional += 1
            said.setdefault(getattr(_argument(command, positional - 1), "name", ""), word)
    return command, positional, waiting, said


def _option(command: Any, name: str) -> Any:
    return next(
        (each for each in command.params if name in (*each.opts, *each.secondary_opts) and name[:1] == "-"), None
    )


def _argument(command: Any, position: int) -> Any:
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    if position < len(arguments):
        return arguments[position]
    return arguments[-1] if arguments and arguments[-1].nargs == -1 else None


def _parts(command: Any) -> list[Offer]:
    return list(command.lines().items())


def _options(command: Any, said: dict[str, str]) -> list[Offer]:
    offers = [
        (name, each.help or "")
        for each in command.params
        if each.param_type_name == "option" and not each.hidden and (each.multiple or each.name not in said)
        for name in (*each.opts, *each.secondary_opts)
    ]
    return [*offers, (HELP_FLAGS[-1], "Show this help.")]


def _values(parameter: Any, current: str, said: dict[str, str]) -> tuple[str, list[Offer]]:
    """What can be the value of a parameter; None is no parameter, and has none."""
    if parameter is None or getattr(parameter, "is_flag", False):
        return NAMES, []
    metavar = (parameter.metavar or "").strip("[]")
    words = set(metavar.replace("...", " ").replace(CHOICE, " ").split())
    if words & set(FILE_WORDS):
        return FILES, []
    if CHOICE in metavar:
        return NAMES, [(word, "") for word in metavar.split(CHOICE) if word.islower()]
    if parameter.name in {"context", "name", "names"} and (names := _contexts(parameter)) is not None:
        return NAMES, names
    return NAMES, [] if current.startswith("-") else _things(parameter, words, said)


def _things(parameter: Any, words: set[str], said: dict[str, str]) -> list[Offer]:
    """The queues, or exchanges, where one is to be named."""
    if words & set(EXCHANGE_WORDS) or (parameter.name == "queue" and "to_exchange" in said):
        from transport.cli._completion_names import exchange_names  # noqa: PLC0415 - where one is to be named alone

        return [(name, "an exchange") for name in exchange_names(said)]
    if words & set(QUEUE_WORDS):
        from transport.cli._completion_names import queue_names  # noqa: PLC0415 - likewise

        return [(name, "a queue") for name in queue_names(said)]
    return []


def _contexts(parameter: Any) -> list[Offer] | None:
    """The contexts that there are, where ``parameter`` names one that is there."""
    from transport.cli._contexts import ContextError, contexts_file, read_contexts  # noqa: PLC0415 - where one is named alone

    if parameter.name != "context" and "context" not in str(parameter.help).lower():
        return None
    try:
        contexts = read_contexts(contexts_file(os.environ))
    except ContextError:
        return []
    return [(name, context["send_address"]) for name, context in sorted(contexts.by_name.items())]
