"""`python -m spec.startup`: the model check of the start-up (`make model`)."""

import sys

from spec.startup.checks import main

sys.exit(main())
