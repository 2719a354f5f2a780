from .consumers import running
from .hosted_broker import HostedBroker
from .jumping_loop import JumpingLoop

__all__ = ["HostedBroker", "JumpingLoop", "running"]
