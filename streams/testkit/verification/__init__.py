"""The verification kit: the rules of Reactive Streams 1.0.4 as pytest classes, to be subclassed for publishers, subscribers and processors.

A subclass says how to make what is to be tested, and pytest finds a test of every rule in it. See docs/verification.md.
"""

from streams.testkit.verification.base import Verification
from streams.testkit.verification.blackbox import SubscriberBlackboxVerification
from streams.testkit.verification.environment import Environment
from streams.testkit.verification.processor import IdentityProcessorVerification
from streams.testkit.verification.publisher import PublisherVerification
from streams.testkit.verification.whitebox import SubscriberWhiteboxVerification
from streams.testkit.verification.whitebox_probe import ProbingSubscriber, Puppet, WhiteboxProbe

__all__ = [
    "Environment",
    "IdentityProcessorVerification",
    "ProbingSubscriber",
    "PublisherVerification",
    "Puppet",
    "SubscriberBlackboxVerification",
    "SubscriberWhiteboxVerification",
    "Verification",
    "WhiteboxProbe",
]
