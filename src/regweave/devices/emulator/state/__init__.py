"""What waves hold and reach: registers, LDS, global memory; and the waves that stand at one step.

`registers`, `lds` and `memory` are arrays with what is known of each place; a `cohort` reads and writes them.
"""

__all__: list[str] = []
