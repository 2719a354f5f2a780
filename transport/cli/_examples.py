"""The examples in each verb's help, in one table. A test runs them against a broker, or parses those that none can run."""

from __future__ import annotations

from typing import Final, NamedTuple


class Example(NamedTuple):
    """A command that works as it stands.

    Attributes:
        line: the command, as a shell takes it.
        does: what it does.
    """

    line: str
    does: str


EXAMPLES: Final[dict[str, tuple[Example, ...]]] = {
    "": (
        Example("penstock broker --memory", "Run a broker that keeps nothing on disk."),
        Example("echo hello | penstock send --queue greetings", "Send it a message."),
        Example("penstock receive --queue greetings --count 1", "Take one out again."),
    ),
    "broker": (
        Example("penstock broker --data ./penstock-data", "Keep what is sent in a folder, across restarts."),
        Example("penstock broker --memory --queue 'orders max_messages=1000'", "Keep nothing; one queue has a limit."),
        Example("penstock broker --config penstock.toml --check", "Start nothing; say what would be wrong."),
    ),
    "send": (
        Example("echo hello | penstock send --queue greetings", "Send one line of the standard input."),
        Example("penstock send --queue orders orders.txt", "Send each line of a file."),
        Example("penstock send --exchange orders --routing-key eu.tea orders.txt", "Publish them to an exchange."),
    ),
    "receive": (
        Example("penstock receive --queue greetings --count 1", "Print one message, and end."),
        Example("penstock receive --queue orders --idle-exit 2", "Print what is there, and end after 2 quiet seconds."),
        Example("penstock receive --queue orders --count 5", "Print five; what more there is stays in the queue."),
    ),
    "stats": (
        Example("penstock stats", "Show what waits and what moves."),
        Example("penstock stats --json", "The same, for programs."),
    ),
    "top": (
        Example("penstock top", "See the queues under the most pressure first; h shows the keys."),
        Example("penstock top --queue orders --sort backlog", "Begin with one queue: who sends, who receives."),
        Example("penstock top --count 1 --json", "One look, for programs."),
    ),
    "bench": (
        Example("penstock bench --memory --seconds 2", "Measure a broker that is started for this, in memory."),
        Example("penstock bench --size 1000 --senders 2 --receivers 2", "Measure the broker of this machine."),
        Example("penstock bench --context prod --json", "Measure that of a context, for programs."),
    ),
    "queue": (
        Example("penstock queue list", "List the queues."),
        Example("penstock queue create orders --max-messages 1000", "Declare one with a limit."),
    ),
    "queue list": (
        Example("penstock queue list", "List the queues and what they hold."),
        Example("penstock queue list --address 127.0.0.1:9182", "Those of a certain broker."),
    ),
    "queue create": (
        Example("penstock queue create orders --max-messages 1000 --overflow reject", "Refuse what is over a limit."),
        Example(
            "penstock queue create tasks --max-receives 5 --dead-letter-queue failed",
            "Put aside what has failed five times.",
        ),
    ),
    "queue alter": (
        Example("penstock queue alter orders --max-messages 5000", "Give it more room; what it holds stays."),
        Example("penstock queue alter orders --ttl never", "Keep messages until they are taken."),
    ),
    "queue show": (
        Example("penstock queue show orders", "See its settings, what it holds, and what blocks it."),
        Example("penstock queue show orders --json", "The same, for programs."),
    ),
    "queue peek": (
        Example("penstock queue peek orders --count 3", "Look at the three oldest messages; nothing changes."),
        Example("penstock queue peek orders --from newest --headers", "The newest, with their headers."),
    ),
    "queue move": (
        Example("penstock queue move orders.dead orders", "Have all that failed tried again."),
        Example("penstock queue move orders later --count 100 --create", "Put a hundred aside, in a queue of its own."),
    ),
    "queue export": (
        Example("penstock queue export queues.toml", "Write what is declared to a file."),
        Example("penstock queue export --queue 'orders*' --format json", "Some of it, for programs."),
    ),
    "queue import": (
        Example("penstock queue import queues.toml --dry-run", "See what it would do."),
        Example("penstock queue import queues.toml --alter", "Declare them; alter those that differ."),
    ),
    "queue delete": (
        Example("penstock queue delete orders", "Delete a queue and what it holds."),
        Example("penstock queue delete orders --context prod", "At the broker of a context."),
    ),
    "queue purge": (
        Example("penstock queue purge orders", "Drop what waits; the queue stays."),
        Example("penstock queue purge orders --context prod", "At the broker of a context."),
    ),
    "definitions": (
        Example(
            "penstock definitions import definitions.json --dry-run", "See what it would make, and what it leaves."
        ),
    ),
    "definitions import": (
        Example(
            "penstock definitions import definitions.json --dry-run", "See what it would make, and what it leaves."
        ),
        Example("penstock definitions import definitions.json", "Make what is not there yet."),
        Example("penstock definitions import shop.json --virtual-host shop", "From a file of one virtual host."),
    ),
    "cluster": (
        Example("penstock cluster status", "See who leads, and how far behind the others are."),
        Example("penstock cluster add d=10.0.0.4", "Take in a node that was started and waits."),
    ),
    "cluster status": (
        Example("penstock cluster status --address a:9182,b:9182,c:9182", "Ask whichever node answers."),
        Example("penstock cluster status --json", "The same, for programs."),
    ),
    "cluster add": (
        Example("penstock cluster add d=10.0.0.4", "Take it in, and wait until it counts."),
        Example("penstock cluster add d=10.0.0.4:9184 --wait 1h", "Where there is much for it to read."),
    ),
    "cluster remove": (
        Example("penstock cluster remove d", "Let it go; then stop its process."),
        Example("penstock cluster remove d --address a:9182,b:9182", "Whichever of two nodes answers."),
    ),
    "cluster move": (
        Example("penstock cluster move b", "Its directory was wiped: have it filled anew, and count again."),
        Example("penstock cluster move b=10.0.0.7", "It is another machine now."),
    ),
    "cluster heal": (
        Example("penstock cluster heal b", "It has met damage: fill it anew, and keep what it has aside."),
        Example("penstock cluster heal b --wait 1h", "Where there is much for it to read."),
    ),
    "cluster give-up": (
        Example("penstock cluster give-up", "End a change that cannot be done."),
        Example("penstock cluster give-up --context prod", "At the cluster of a context."),
    ),
    "exchange": (
        Example("penstock exchange list", "List the exchanges."),
        Example("penstock exchange create orders --kind topic", "Declare one that goes by patterns."),
    ),
    "exchange list": (
        Example("penstock exchange list", "See what came to each, and what of that no queue took."),
        Example("penstock exchange list --wide", "With all that was declared."),
    ),
    "exchange show": (
        Example("penstock exchange show orders", "See what it is, and where it leads."),
        Example("penstock exchange show orders --json", "The same, for programs."),
    ),
    "exchange create": (
        Example("penstock exchange create orders --kind topic", "Declare one that goes by patterns."),
        Example("penstock exchange create news --kind fanout --alternate rest", "What nobody takes goes to another."),
        Example(
            "penstock exchange create later --kind topic --delayed",
            "What is sent with a delay waits before it is routed.",
        ),
    ),
    "exchange delete": (
        Example("penstock exchange delete orders", "Delete it, with its bindings; the queues stay."),
        Example("penstock exchange delete orders --if-unused", "Only where nothing is bound to it."),
    ),
    "exchange route": (
        Example("penstock exchange route orders eu.tea", "See which queues would get a message with this key."),
        Example("penstock exchange route amq.headers '' --header kind=tea", "And one with this header."),
    ),
    "binding": (
        Example("penstock binding list", "List what leads from exchanges to queues."),
        Example("penstock binding create orders europe 'eu.*'", "Have a queue get what matches."),
    ),
    "binding list": (
        Example("penstock binding list --exchange orders", "See where an exchange leads."),
        Example("penstock binding list --queue europe", "See what leads to a queue."),
    ),
    "binding create": (
        Example("penstock binding create orders europe 'eu.*'", "Have the queue get what matches the pattern."),
        Example("penstock binding create orders all --to-exchange", "Have another exchange get it."),
        Example(
            "penstock binding create amq.headers teas --argument kind=tea --match any",
            "Have it get what has such a header.",
        ),
    ),
    "binding delete": (
        Example("penstock binding delete orders europe 'eu.*'", "Named as it was created."),
        Example("penstock binding delete orders all --to-exchange", "One that leads to another exchange."),
    ),
    "schedule": (
        Example("penstock schedule add report '0 8 * * *' --queue reports", "Have a message stored at times."),
        Example("penstock schedule list", "See when each is due, and what came of its times."),
    ),
    "schedule list": (
        Example("penstock schedule list", "See when each is due, and what came of its times."),
        Example("penstock schedule list --wide", "With what is done about missed times, and errors."),
    ),
    "schedule show": (
        Example("penstock schedule show report", "See what it stores and when."),
        Example("penstock schedule show report --json", "The same, for programs."),
    ),
    "schedule add": (
        Example("penstock schedule add report '0 8 * * *' --zone Europe/Berlin --queue reports", "At eight, there."),
        Example("penstock schedule add beat 'every 30s' --queue beats --payload tick", "Each 30 seconds."),
        Example("penstock schedule add sum @daily --queue sums --missed once", "One makes up for all that it missed."),
    ),
    "schedule remove": (
        Example("penstock schedule remove report", "Delete it; what it has stored stays."),
        Example("penstock schedule remove report --address 127.0.0.1:9182", "That of a certain broker."),
    ),
    "schedule pause": (
        Example("penstock schedule pause report", "Have nothing come of it for a while."),
        Example("penstock schedule pause report --address 127.0.0.1:9182", "That of a certain broker."),
    ),
    "schedule resume": (
        Example("penstock schedule resume report", "Have it go on, from the next of its times."),
        Example("penstock schedule resume report --address 127.0.0.1:9182", "That of a certain broker."),
    ),
    "schedule next": (
        Example("penstock schedule next '0 8 * * MON-FRI'", "See the next times; no broker is asked."),
        Example(
            "penstock schedule next '30 2 * * *' --zone Europe/Berlin --after 2026-03-28",
            "See what comes of them where clocks change.",
        ),
    ),
    "subscription": (
        Example("penstock subscription list", "List the named consumers of all queues."),
        Example("penstock subscription delete orders nightly", "Forget one that nobody needs any more."),
    ),
    "subscription list": (
        Example("penstock subscription list", "See who lags behind, and who has not come back."),
        Example("penstock subscription list --context prod", "At the broker of a context."),
    ),
    "subscription release": (
        Example("penstock subscription release orders nightly", "Return what it has reserved to the queue."),
        Example(
            "penstock subscription release orders nightly --force", "Also while its query lives, which then fails."
        ),
        Example("penstock subscription release orders nightly --context prod", "At the broker of a context."),
    ),
    "subscription delete": (
        Example("penstock subscription delete orders nightly", "Forget it."),
        Example("penstock subscription delete orders nightly --context prod", "At the broker of a context."),
    ),
    "connection": (
        Example("penstock connection list", "See who is connected."),
        Example("penstock connection close 12 --reason maintenance", "End one connection, and say why."),
    ),
    "connection list": (
        Example("penstock connection list", "See who is connected, and what they hold."),
        Example("penstock connection list --wide", "With addresses, users and bytes."),
    ),
    "connection close": (
        Example("penstock connection close 12 --reason maintenance", "End one connection, and say why."),
        Example("penstock connection close --of-user ann", "End all that belong to a user."),
    ),
    "transaction": (
        Example("penstock transaction list", "See what is staged and not committed."),
        Example("penstock transaction abort spark-orders 7", "Discard what one writer has staged."),
    ),
    "transaction list": (
        Example("penstock transaction list", "See who has something staged, and where."),
        Example("penstock transaction list --context prod", "At the broker of a context."),
    ),
    "transaction abort": (
        Example("penstock transaction abort spark-orders 7", "Discard version 7 of this writer."),
        Example("penstock transaction abort spark-orders 7 --context prod", "At the broker of a context."),
    ),
    "config": (Example("penstock config show", "See what a broker would run with, and who said so."),),
    "config show": (
        Example("penstock config show --data ./penstock-data --sync always", "See what these options come to."),
        Example("penstock config show --config penstock.toml --json", "Check a settings file, for programs."),
    ),
    "journal": (Example("penstock journal verify ./penstock-data", "Read all of a stopped broker's journal."),),
    "journal verify": (
        Example("penstock journal verify ./penstock-data", "Say what is damaged; change nothing."),
        Example("penstock journal verify ./penstock-data && penstock broker", "Start only where nothing is."),
    ),
    "journal repair": (
        Example("penstock journal repair ./penstock-data", "Keep what is whole, and put the damaged files aside."),
        Example("cp -a penstock-data copy && penstock journal repair copy", "Try it on a copy first."),
    ),
    "journal backup": (
        Example("penstock journal backup monday", "Copy a running broker's journal; nobody waits for it."),
        Example("penstock journal backup monday --data ./penstock-data", "Copy that of a stopped one."),
    ),
    "journal restore": (
        Example("penstock journal restore monday restored", "Make a data directory of it."),
        Example("penstock journal restore monday restored && penstock broker --data restored", "And start it."),
    ),
    "user": (
        Example("penstock user add ann --no-password", "Add a user."),
        Example("penstock user grant ann read write --on 'orders*'", "Let her use some queues."),
        Example("penstock user token ann --days 30", "Make a token for her."),
    ),
    "user add": (
        Example("penstock user add ann --password-file ann.password", "With the password that a file has."),
        Example("penstock user add till-7 --no-password", "For a program that will have a token or a certificate."),
    ),
    "user passwd": (
        Example("penstock user passwd ann --password-file ann.password", "Change it to what a file has."),
        Example("echo 'a better one' | penstock user passwd ann --password-file -", "Read it from standard input."),
    ),
    "user remove": (
        Example("penstock user remove ann", "Remove her, with all rights."),
        Example("penstock user remove ann --users-file penstock-users.toml", "From a certain file."),
    ),
    "user grant": (
        Example("penstock user grant ann read write --on 'orders*'", "Let her use the queues with such names."),
        Example("penstock user grant ann monitor", "Let her see lists and figures."),
    ),
    "user revoke": (
        Example("penstock user revoke ann write --on 'orders*'", "Take a right on queues."),
        Example("penstock user revoke ann monitor", "Take a right on the broker."),
    ),
    "user token": (
        Example("penstock user token ann --days 30 --note laptop", "Print a token that lasts for 30 days."),
        Example("(umask 077; penstock user token ann > ann.token)", "Keep it in a file that nobody else can read."),
    ),
    "user key": (
        Example("penstock user key ann", "Print an access key for clients of the other protocol."),
        Example("penstock user key ann --key-file penstock.key", "With the key file named."),
    ),
    "user certificate": (
        Example("penstock user certificate ann CN=ann", "Let in who shows a certificate with this subject."),
        Example("penstock user certificate till-7 'CN=till-7,O=Example'", "A subject with more parts."),
    ),
    "user list": (
        Example("penstock user list", "See who there is, with rights and proofs."),
        Example("penstock user list --json", "The same, for programs."),
    ),
    "context": (
        Example("penstock context add prod --address broker.example --tls --user ann", "Remember a broker."),
        Example("penstock context use prod", "Have it count where none is named."),
    ),
    "context add": (
        Example("penstock context add test --address 127.0.0.1:9182", "Remember a broker by its address."),
        Example(
            "penstock context add prod --address prod.example --token-file my.token --tls",
            "With TLS, and the file that has the token.",
        ),
    ),
    "context list": (
        Example("penstock context list", "See the contexts, and which counts."),
        Example("penstock context list --json", "The same, for programs."),
    ),
    "context show": (
        Example("penstock context show prod", "See what a context says."),
        Example("penstock context show", "See the one that counts."),
    ),
    "context use": (
        Example("penstock context use prod", "Have it count where none is named."),
        Example("penstock context use --none", "Have none count."),
    ),
    "context remove": (
        Example("penstock context remove prod", "Forget it."),
        Example("penstock context remove test prod", "Forget both."),
    ),
    "completion": (Example('eval "$(penstock completion bash)"', "Complete in this shell, a bash, from now on."),),
    "completion bash": (
        Example('eval "$(penstock completion bash)"', "Complete in this shell; in ~/.bashrc, in each."),
        Example(
            "penstock completion bash > ~/.local/share/bash-completion/completions/penstock", "In each, made once."
        ),
    ),
    "completion zsh": (
        Example('eval "$(penstock completion zsh)"', "Complete in this shell; in ~/.zshrc, behind compinit, in each."),
        Example('penstock completion zsh > "${fpath[1]}/_penstock"', "In each, made once."),
    ),
    "completion fish": (
        Example("penstock completion fish | source", "Complete in this shell."),
        Example("penstock completion fish > ~/.config/fish/completions/penstock.fish", "In each, made once."),
    ),
}
"""By the words of the verb; none stands for the command itself."""
