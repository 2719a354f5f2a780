"""``penstock broker`` that takes every sync for a quick one: on a slow disk too its loop commits what comes alone."""

import math

import journal.committer
from transport.cli import main

journal.committer.QUICK_SYNC = math.inf

if __name__ == "__main__":
    main()
