"""`python -m regweave` is the program `regweave`."""

import sys

from regweave.cli.app import main

sys.exit(main())
