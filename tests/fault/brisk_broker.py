"""``penstock broker`` with a calendar of seconds: in a test of seconds messages go through slots of every width, as others do in a year."""

import actors.queue.operations.calendar as operations
import actors.queue.state.calendar as state
from transport.cli import main

SECOND_US = 1_000_000
WIDTHS_US = (SECOND_US, 3 * SECOND_US, 9 * SECOND_US)

if __name__ == "__main__":
    # Here alone: whoever merely imports this module, as the test of all programs does, keeps the calendar as it is.
    vars(operations).update(NEAR_SECONDS=0.2, LEADS_SECONDS=(0.3, 0.5, 1.0), WIDTHS_US=WIDTHS_US)
    vars(state).update(WIDTHS_US=WIDTHS_US, REACH=1)
    main()
