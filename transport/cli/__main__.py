"""``python -m transport.cli``: the command without its installed script."""

from transport.cli.app import main

main()
