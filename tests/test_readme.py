"""Every example of the README runs and prints what it says."""

import re
from pathlib import Path

import incidence
from incidence.cli import main

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_the_python_examples_give_the_values_in_their_comments():
    checked = 0
    for block in blocks("python"):
        names: dict[str, object] = {}
        for line in block.splitlines():
            code, _, comment = line.partition("  # ")
            expected = re.match(r"[(\[{].*?[)\]}](?=:|$)", comment.strip())
            if expected and "=" not in code:
                assert repr(eval(code, names)) == expected[0], line
                checked += 1
            else:
                exec(code, names)
    assert checked >= 3


def test_the_command_prints_the_text_below_it(capsys):
    shown = re.search(r"`./run incidence explain \"(.*?)\"` prints\n\n```\n(.*?)```", README, flags=re.DOTALL)
    assert shown is not None
    main(["explain", shown[1]])
    assert capsys.readouterr().out == shown[2]


def test_the_version_has_one_source():
    cff = (Path(__file__).parents[1] / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {incidence.__version__}\n" in cff
