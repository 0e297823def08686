"""`./run python -m benchmarks [NAME ...]`: runs the named benchmarks of this folder, or all."""

import sys
from importlib import import_module

NAMES = ("algebra", "scale")


def main() -> int:
    names = sys.argv[1:] or NAMES
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    for name in names:
        import_module(f"benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
