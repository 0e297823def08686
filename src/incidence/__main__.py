"""`python -m incidence`: the command line."""

import os
import sys

from incidence.cli import main

os.environ.setdefault("INCIDENCE_COMMAND", "python -m incidence")
sys.exit(main())
