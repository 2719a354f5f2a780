"""``penstock broker`` that takes every sync for a quick one: on a slow disk too its loop commits what comes alone."""

import math

import journal.alone
from transport.cli import main

if __name__ == "__main__":
    # Here alone: whoever merely imports this module, as the test of all programs does, keeps the journal as it is.
    journal.alone.QUICK_SYNC = math.inf
    main()
