"""Receipts: what names a message that was taken by request, so that whoever has one, and nobody else, says what became of it.

A receipt is text: 42 bytes in base64url (RFC 4648), of which the last 17 are the beginning of an HMAC with SHA-256 over the others. These
are a version, the broker's epoch, and the queue's, the message's and the delivery's numbers. So many bytes have no bits to spare in base64:
each text stands for one receipt, and no other text for the same.
"""

from __future__ import annotations

import binascii
import hmac
import secrets
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final, NamedTuple

from transport.broker.served import RefusalError

if TYPE_CHECKING:
    from actors.storage import DurableMap

VERSION: Final = 1
NAMED: Final = struct.Struct(">BIQQI")
"""Version, epoch, queue, message, delivery: 25 bytes."""
MAC_BYTES: Final = 17
"""136 bits, of which none can be guessed."""
TEXT_CHARACTERS: Final = 56
KEY_BYTES: Final = 32
SECTION, KEY = "receipts", "key"
"""Where the key is in the broker's map: receipts of the life before are known as such, and not taken for forged ones."""

INVALID, FOREIGN, STALE = "invalid-receipt", "foreign-receipt", "stale-receipt"
GONE, EXPIRED = "receipt-gone", "receipt-expired"
"""Codes: no receipt of this broker, one of another queue, one of an earlier life; of a message that is not there any more, or that came
back when its time was over."""


class Taken(NamedTuple):
    """What a receipt names: a message by its number, and which of its deliveries."""

    number: int
    delivery: int


class Receipts:
    """Makes and reads the receipts of one broker's life.

    Args:
        key: secret, of the broker.
        epoch: the number of this life.
    """

    def __init__(self, key: bytes, epoch: int) -> None:
        self._key = key
        self._epoch = epoch

    @classmethod
    async def of(cls, memory: DurableMap, epoch: int) -> Receipts:
        """Those of a broker, whose key is made and kept at the first start; raises as of `DurableMap.put`."""
        key = memory.get(SECTION, KEY)
        if key is None:
            key = secrets.token_bytes(KEY_BYTES)
            # Whoever has a receipt by it has it in the life after this one too.
            await memory.synced(memory.put(SECTION, KEY, key))
        return cls(key, epoch)

    def make(self, queue: int, number: int, delivery: int) -> str:
        """The receipt of a delivery of a message of the queue with a number."""
        named = NAMED.pack(VERSION, self._epoch, queue, number, delivery)
        return urlsafe_b64encode(named + self._mac(named)).decode()

    def read(self, text: str, queue: int, name: str) -> Taken:
        """What a receipt names in the queue with the number ``queue``, which is called ``name``.

        Raises:
            RefusalError: it is none of this broker's, of another queue, or of an earlier life.
        """
        try:
            whole = urlsafe_b64decode(text.encode("ascii")) if len(text) == TEXT_CHARACTERS else b""
        except (UnicodeEncodeError, binascii.Error):
            whole = b""
        if urlsafe_b64encode(whole) != text.encode(errors="replace"):
            # What base64 passes over, or takes for the same, would be another text for a receipt.
            whole = b""
        named, mac = whole[: NAMED.size], whole[NAMED.size :]
        if len(mac) != MAC_BYTES or not hmac.compare_digest(mac, self._mac(named)):
            raise RefusalError(INVALID, f"{text!r:.80} is no receipt of this broker: give one as a take gave it")
        _, epoch, of_queue, number, delivery = NAMED.unpack(named)
        if epoch != self._epoch:
            raise RefusalError(
                STALE,
                "this receipt is from before the broker started anew: the message comes again, with another receipt",
            )
        if of_queue != queue:
            raise RefusalError(FOREIGN, f"this receipt is of another queue than {name}, or of one that was made anew")
        return Taken(number, delivery)

    def _mac(self, named: bytes) -> bytes:
        return hmac.digest(self._key, named, "sha256")[:MAC_BYTES]
