"""HTTP: an API for programs in any language, over the same queues."""
