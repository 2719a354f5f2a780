"""What of pykka is not public, and cannot be done without: the one place that names it.

An actor runtime is a subclass of pykka's ``Actor``, which is handed its inbox's items in an ``Envelope``, told to stop by an
``_ActorStop``, and answers with the triple that ``sys.exc_info`` gives. Pykka offers no public names for these three. They have been
the same since pykka 2.0 (2019); ``requirements.lock`` has the version that is tested.
"""

from pykka._envelope import Envelope
from pykka._types import OptExcInfo
from pykka.messages import _ActorStop as ActorStop

__all__ = ["ActorStop", "Envelope", "OptExcInfo"]
