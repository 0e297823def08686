"""`python -m incidence`: the command line."""

import sys

from incidence.cli import main

sys.exit(main())
