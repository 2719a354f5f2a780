"""Hooks of mkdocs: the pages of the site that are not in docs/, and links to them.

A page of docs/ is read on its own too, where it stands in the repository. So it links to files as they are there: `../examples/broker.py`,
`../ARCHITECTURE.md`. In the site each such file is a page, and a link to it is a link to that page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import TYPE_CHECKING, Any, Final

from mkdocs.structure.files import File, Files

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parent.parent
DOCS: Final = PurePosixPath("docs")
PAGES: Final = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md")
"""Files of Markdown outside docs/ that are pages under the same name."""
EXAMPLES: Final = "examples"
LANGUAGES: Final = {".py": "python", ".yml": "yaml"}
"""The endings of what is shown as an example, and what each is highlighted as."""
LINK: Final = re.compile(r"(?<=\]\()(?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?(?=\))")
"""A link's target where it is a file."""
WIDTH: Final = "80"
"""Columns of what a verb's help is shown in."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of other files."""
    made = {"index.md": (ROOT / "README.md").read_text("utf-8"), "commands.md": commands()}
    made |= {name: (ROOT / name).read_text("utf-8") for name in PAGES}
    made |= {f"{path}.md": example(path) for path in examples()}
    made[f"{EXAMPLES}/README.md"] = list_of_examples()
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - mkdocs gives them
    """Turn the links to files of the repository into links to their pages."""
    uri = page.file.src_uri
    home = source_of(uri).parent

    def turned(found: re.Match[str]) -> str:
        target = page_of(normpath(home / found["path"]))
        return found[0] if target is None else relpath(target, PurePosixPath(uri).parent) + (found["anchor"] or "")

    return LINK.sub(turned, markdown)


def source_of(uri: str) -> PurePosixPath:
    """Where in the repository that is which a page is made of."""
    if uri == "index.md":
        return PurePosixPath("README.md")
    if uri in PAGES:
        return PurePosixPath(uri)
    if uri.startswith(f"{EXAMPLES}/"):
        return PurePosixPath(uri.removesuffix(".md"))
    return DOCS / uri


def page_of(path: str) -> str | None:
    """The page of a file or folder of the repository; None where it has none, or is no such file."""
    if path == "README.md":
        return "index.md"
    if path.startswith(f"{DOCS}/"):
        inside = path.removeprefix(f"{DOCS}/")
        return f"{inside}/README.md" if (ROOT / path).is_dir() else inside
    if path in PAGES:
        return path
    if path == EXAMPLES or (path.startswith(f"{EXAMPLES}/") and (ROOT / path).is_dir()):
        return f"{EXAMPLES}/README.md"
    return f"{path}.md" if path in examples() else None


def examples() -> list[str]:
    """The programs under examples/, as the repository has them."""
    found = (path.relative_to(ROOT) for path in (ROOT / EXAMPLES).rglob("*") if path.suffix in LANGUAGES)
    return sorted(path.as_posix() for path in found if not any(part.startswith(("_", ".")) for part in path.parts[:-1]))


def example(path: str) -> str:
    """The page of a program."""
    text = (ROOT / path).read_text("utf-8")
    return f"# {path}\n\n```{LANGUAGES[PurePosixPath(path).suffix]}\n{text}```\n"


def list_of_examples() -> str:
    """The page that names the programs, each with the first line of what it says of itself."""
    lines = ["# Examples", ""]
    for path in examples():
        text = (ROOT / path).read_text("utf-8")
        said = re.match(r'"""(.+?)(?:"""|$)', text, re.MULTILINE) or re.match(r"# (.+)", text)
        lines.append(f"- [{path}]({relpath(path, EXAMPLES)}.md)" + (f": {said[1]}" if said else ""))
    return "\n".join(lines) + "\n"


def commands() -> str:
    """The page of what each verb's `--help` prints."""
    sys.path.insert(0, str(ROOT))
    import typer.main  # noqa: PLC0415 - the hook is loaded before the path has ours
    from typer.testing import CliRunner  # noqa: PLC0415

    from transport.cli._usage import PROGRAM  # noqa: PLC0415
    from transport.cli.app import app  # noqa: PLC0415

    runner = CliRunner()
    lines = [
        f"# What `{PROGRAM} --help` prints",
        "",
        "[The command](cli.md) explains the verbs. These are their options.",
    ]

    def add(command: Any, words: list[str]) -> None:
        shown = " ".join([PROGRAM, *words])
        printed = runner.invoke(
            app, [*words, "--help"], prog_name=PROGRAM, env={"COLUMNS": WIDTH, "TERMINAL_WIDTH": WIDTH, "NO_COLOR": "1"}
        )
        if printed.exit_code:
            raise RuntimeError(f"{shown} --help ended with {printed.exit_code}: {printed.output}")
        if words:
            lines.extend(["", f"{'#' * (len(words) + 1)} {shown}"])
        lines.extend(["", "```text", *(line.rstrip() for line in printed.stdout.strip("\n").splitlines()), "```"])
        for name, part in getattr(command, "commands", {}).items():
            add(part, [*words, name])

    add(typer.main.get_command(app), [])
    return "\n".join(lines) + "\n"
