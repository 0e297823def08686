"""Run the Python of a page and compare every value that a comment states.

A comment is prose or it states a value. Prose begins with a word: `# all 9 operations`, not
`# 9 operations`. A value begins with a digit, a sign, a quote or a bracket, with True, False, None,
nan or inf, or with a name that has a dot or a call (`torch.float64`, `tensor(`).

A value stands at the end of a line, or alone on the line below. It is the `repr` of what the last
statement of the line gives; for an assignment, of what is assigned. A colon or a comma and words
may follow. `# = 4`, `# -> 4` and `# ~4` are not the `repr` of anything and fail:

    group.order  # 120
    m.dimension, m.num_biases  # (52, 5): operations and biases
    s.num_entries("{i j}")
    # 21, under a name

Each block of a page has its own names. An error names the page and the line.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize

# A word ends at a space, at punctuation before a space, or with the comment: so `torch.float64` and
# `tensor(1)` are no words.
_WORD = re.compile(
    r"(?!(?:True|False|None|nan|inf)\b|[bru]+[\"'])[^\W\d_]\w*(?:['/-]\w+)*[,:;.!?]*(?:\s|$)"
)
_BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


class WrongPageError(AssertionError):
    """A page that does not give what it says; names the line."""


def check_page(text: str, page: str) -> int:
    """Runs the Python blocks of a page; returns how many values were compared.

    Raises:
        WrongPageError: A stated value is not the value, a value is stated where there is none, or a
            statement raises.
    """
    return sum(
        _check_block(block[1], page, text.count("\n", 0, block.start(1)))
        for block in _BLOCK.finditer(text)
    )


def _check_block(block: str, page: str, offset: int) -> int:
    block = beside(block)
    names: dict[str, object] = {}
    stated = stated_values(block)
    count = len(stated)
    statements = ast.parse(block).body
    last = {statement.end_lineno: statement for statement in statements}
    for statement in statements:
        line = statement.end_lineno or statement.lineno
        place = f"{page}:{offset + line}"
        try:
            value = _run(statement, names, page, offset)
        except Exception as error:
            raise WrongPageError(f"{place}: this raises {type(error).__name__}: {error}") from error
        comment = stated.pop(line, None) if last[line] is statement else None
        if comment is None:
            continue
        if not isinstance(statement, (ast.Expr, ast.Assign)):
            raise WrongPageError(
                f"{place}: `# {comment}` states a value after a line that has none; begin prose"
                " with a word"
            )
        shown = repr(value)
        if comment != shown and not comment.startswith((f"{shown}: ", f"{shown}, ")):
            raise WrongPageError(
                f"{place}: the comment says `{comment}`, and the value is `{shown}`"
            )
    for line, comment in stated.items():
        raise WrongPageError(
            f"{page}:{offset + line}: `# {comment}` states a value, but no statement ends here;"
            " begin prose with a word"
        )
    return count


def beside(block: str) -> str:
    """Move every value that stands alone on a line to the end of the line above it.

    Lines keep their numbers: an empty line takes the place of the value.
    """
    lines = block.split("\n")
    comments = _comments(block)
    for number in sorted(comments):
        comment = comments[number]
        is_alone = lines[number - 1].startswith("#")
        follows_code = number > 1 and lines[number - 2].strip() and number - 1 not in comments
        if is_alone and follows_code and comment and not _WORD.match(comment):
            lines[number - 2] += f"  {lines[number - 1]}"
            lines[number - 1] = ""
    return "\n".join(lines)


def stated_values(block: str) -> dict[int, str]:
    """Return the comments at the ends of lines that state a value, by line number from 1."""
    return {
        line: comment
        for line, comment in _comments(block).items()
        if comment and not _WORD.match(comment)
    }


def _comments(block: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(block).readline)
    return {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokens
        if token.type == tokenize.COMMENT
    }


def _run(statement: ast.stmt, names: dict[str, object], page: str, offset: int) -> object:
    """Executes a statement; the value of an expression, or what an assignment leaves in its first
    target.
    """
    ast.increment_lineno(statement, offset)
    if isinstance(statement, ast.Expr):
        return eval(compile(ast.Expression(statement.value), page, "eval"), names)
    exec(compile(ast.Module([statement], []), page, "exec"), names)
    return (
        eval(ast.unparse(statement.targets[0]), names)
        if isinstance(statement, ast.Assign)
        else None
    )
