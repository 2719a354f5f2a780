"""Lines as a web server logs them, by a seed: what tests send where users send files."""

from __future__ import annotations

from random import Random

LINES = 10_000
"""As many as fill some hundred batches, and a few megabytes."""
SEED = 1705
HOSTS = 1_700
PAGES = 400
AGENTS = (
    b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/32.0.1700.77 Safari/537.36",
    b"Mozilla/5.0 (Windows NT 6.1; WOW64; rv:27.0) Gecko/20100101 Firefox/27.0",
    b"UniversalFeedParser/4.2-pre-314-svn",
    b"-",
    b"",
)
ODD = (b"", b" ", b"\tGET /", "GET /suché/東京".encode(), bytes(range(128, 256)), b"x" * 20_000)
"""What a log holds now and then: nothing, blanks, text that is not ASCII, bytes that are no text, a line longer than a page."""
ODD_ONE_IN = 250


def log_lines(count: int = LINES, seed: int = SEED) -> list[bytes]:
    """``count`` lines without their ends; many hosts and pages come again, some lines are alike, some are odd."""
    random = Random(seed)
    hosts = [b"%d.%d.%d.%d" % tuple(random.randrange(1, 255) for _ in range(4)) for _ in range(HOSTS)]
    pages = [b"/" + b"/".join(b"%x" % random.getrandbits(28) for _ in range(random.randrange(4))) for _ in range(PAGES)]
    lines: list[bytes] = []
    for number in range(count):
        if random.randrange(ODD_ONE_IN) == 0:
            lines.append(random.choice(ODD))
            continue
        second = number // 4
        lines.append(
            b'%s - - [17/May/2015:%02d:%02d:%02d +0000] "GET %s HTTP/1.1" %d %d "-" "%s"'
            % (
                random.choice(hosts),
                second // 3600 % 24,
                second // 60 % 60,
                second % 60,
                random.choice(pages),
                random.choice((200, 200, 200, 304, 404)),
                random.randrange(1_000) * 100,
                random.choice(AGENTS),
            )
        )
    return lines
