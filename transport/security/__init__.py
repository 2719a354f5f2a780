"""Who is asking, how they prove it, and what they may do: without sockets, clocks and files but for the users file itself."""
