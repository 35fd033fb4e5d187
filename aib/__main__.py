"""`python -m aib` is `aib`."""

import sys

from aib.cli import main

sys.exit(main())
