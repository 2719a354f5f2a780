"""What a program gives and gets that is the queue's own: messages in batches."""

from __future__ import annotations

from actors.batch import BinaryColumn, Message, MessageBatch

__all__ = ["BinaryColumn", "Message", "MessageBatch"]
