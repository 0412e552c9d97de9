"""`python -m properties VERB`."""

import sys

from properties.verbs import main

sys.exit(main(sys.argv[1:]))
