"""The first import of transport: the packages that it needs are Penstock's own, and not others of the same name.

Each package that needs others has this file: if one of them had it for all, the others could not find it where that one is shadowed.
"""

from __future__ import annotations

import os
from importlib.util import find_spec

NEEDED = ("actors", "streams")
"""Each of these checks what it needs itself."""


def check() -> None:
    """Raise ImportError where another package, or a folder of the user's, is found under a name of ours."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name in NEEDED:
        try:
            spec = find_spec(name)
        except ValueError:
            continue  # in sys.modules without a spec, so somebody has put it there by hand
        if spec is None:
            continue  # its import says so
        found = spec.origin or next(iter(spec.submodule_search_locations or ()), "")
        folder = os.path.dirname(found) if spec.origin and spec.submodule_search_locations else found
        expected = os.path.join(ours, name)
        if folder != expected and os.path.realpath(folder) != os.path.realpath(expected):
            raise ImportError(
                f"Penstock needs its own package {name}, but Python finds {found} under that name first: rename that one, "
                f"or start Python where its folder does not come before {ours} in sys.path",
                name=name,
                path=found,
            )


check()
