"""On the site, answers stand below what was asked."""

import pytest

from docs.extensions.answers import below


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("1 + 1  # 2", "1 + 1\n# 2"),
        ("x = f(3)  # (1, 2): a pair\ny = 3", "x = f(3)\n# (1, 2): a pair\ny = 3"),
        ("'#'  # '#': a sign", "'#'\n# '#': a sign"),
        ("x = 1  # a word, and no answer", "x = 1  # a word, and no answer"),
        ("x = [\n    1,\n]  # [1]", "x = [\n    1,\n]\n# [1]"),
    ],
)
def test_what_a_comment_states_is_put_on_the_next_line(code, shown):
    assert below(code) == shown
