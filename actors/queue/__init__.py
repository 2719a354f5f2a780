"""A queue, the actor that owns it, and the actors that its connections talk to."""
