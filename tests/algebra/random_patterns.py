"""Random patterns, in the form that the brute force takes."""

from hypothesis import strategies as st

from tests.algebra.brute_force import RawFace, RawPattern


@st.composite
def raw_patterns(draw: st.DrawFn, names: str) -> tuple[RawPattern, dict[str, str]]:
    """A pattern of up to three letters of those given, with the sorts of its letters."""
    letters = names[: draw(st.integers(1, 3))]
    sorts = {x: draw(st.sampled_from(["node", "node", "b"])) for x in letters}
    faces = []
    for _ in range(draw(st.integers(1, 3))):
        inside = draw(st.lists(st.sampled_from(letters), min_size=1, max_size=3, unique=True))
        kind = "n" if len(inside) == 1 else draw(st.sampled_from("({[<"))
        faces.append(RawFace(kind, tuple(inside)))
    used = {x for face in faces for x in face.letters}
    return tuple(faces), {x: s for x, s in sorts.items() if x in used}
