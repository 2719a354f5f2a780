"""The console at ``/``: a page for people who look at a broker, the files that it is made of, and the sessions of who has signed in."""
