"""What a program gives and gets that is the queue's own: messages in batches, and stages."""

from __future__ import annotations

from actors.batch import BinaryColumn, Message, MessageBatch
from actors.queue.vocabulary.stages import EnlistedStage

__all__ = ["BinaryColumn", "EnlistedStage", "Message", "MessageBatch"]
