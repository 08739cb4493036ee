"""``python -m duplex`` is ``duplex``."""

import sys

from duplex.cli import main

sys.exit(main())
