"""Manual pages and completions of the binary, read by the programs that they are for."""

from __future__ import annotations

import os

from tools import Files, run


def manual_pages(files: Files) -> None:
    binary = os.environ["FERRYBUS_BIN"]
    broken = files.folder / "broken.1"
    broken.write_text(".TH broken 1\n.SH NAME\nbroken \\- \\fQno such font\n.nosuchmacro\n", encoding="utf-8")
    assert warnings(broken), "groff overlooks a macro that does not exist"
    pages = files.folder / "pages"
    assert run(binary, "man", pages).code == 0
    names = sorted(pages.iterdir())
    assert len(names) > 40, names
    for page in names:
        said = warnings(page)
        assert not said, f"{page.name}: {said}"
        indexed = run("lexgrog", page)
        assert indexed.code == 0, f"`apropos` does not find it: {indexed.output}"


def warnings(page) -> str:
    return run("groff", "-K", "utf8", "-man", "-ww", "-z", "-T", "utf8", page).output.strip()


# What has been typed, and what each shell must offer for it.
OFFERS = (
    ("", ("serve", "queue", "dead-letter", "top", "completions")),
    ("queue ", ("create", "update", "show", "list", "delete")),
    ("queue create orders --lock", ("--lock-duration",)),
    ("dead-letter re", ("resubmit",)),
    ("receive orders --settle ", ("complete", "abandon", "dead-letter", "release")),
    ("rule update events all big --f", ("--force",)),
)


def completions(files: Files) -> None:
    binary = os.environ["FERRYBUS_BIN"]
    scripts = {}
    for shell in ("bash", "zsh", "fish"):
        made = run(binary, "completions", shell)
        assert made.code == 0, made.output
        scripts[shell] = files.folder / f"ferrybus.{shell}"
        scripts[shell].write_text(made.output, encoding="utf-8")
    assert run("zsh", "-f", "-n", scripts["zsh"]).code == 0
    for typed, wanted in OFFERS:
        for offered in (bash(scripts["bash"], typed), fish(scripts["fish"], typed)):
            missing = set(wanted) - offered
            assert not missing, f"`ferrybus {typed}`: {missing} not among {offered}"


def bash(script, typed: str) -> set[str]:
    words = ["ferrybus", *typed.split(" ")]
    program = f"""
        source "$0"
        COMP_WORDS=("$@"); COMP_CWORD={len(words) - 1}
        _ferrybus ferrybus "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    said = run("bash", "--norc", "-c", program, script, *words)
    assert said.code == 0, said.output
    return set(said.output.split())


def fish(script, typed: str) -> set[str]:
    program = 'source $argv[1]; complete --do-complete "ferrybus $argv[2]"'
    said = run("fish", "--no-config", "--command", program, script, typed)
    assert said.code == 0, said.output
    return {line.split("\t")[0] for line in said.output.splitlines()}
