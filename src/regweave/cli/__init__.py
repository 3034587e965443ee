"""The command line: one module per verb, each a thin coat over a call of the Python library.

`app` holds the program and turns every exception into an exit code; `output` keeps the two streams apart
(one document on stdout, talk on stderr); `fuse`, `rearrange`, `layout`, `machine`, `bench` and `doctor`
each hold one verb; `names` says what a layout or a machine is on the command line.
"""

from regweave.cli.app import main

__all__ = ["main"]
