"""The function that permutes weights for a fold, as a NumPy module and as a C header.

A fold leaves the data where it is and lets the next product sum over k in another order, so that position p
of the operand holds true k = order[p]. The weights must follow: along k, position p of every tile takes
what was at order[p]. Both functions permute one axis of an array of any rank; neither needs regweave.
"""

from __future__ import annotations

import textwrap


def numpy_text(order: tuple[int, ...], axis: int, words: str, purpose: str) -> str:
    """A module with `permute_weights(weights, axis)`; `words` name the plan, `purpose` the weights."""
    return f'''# {words}
"""{purpose}"""

import numpy as np

ORDER = np.array([{", ".join(map(str, order))}])


def permute_weights(weights, axis={axis}):
    """A copy of `weights` whose position p along `axis` holds what was at ORDER[p], tile by tile.

    Raises ValueError if the length of that axis is no multiple of {len(order)}.
    """
    weights = np.asarray(weights)
    length = weights.shape[axis]
    if length % len(ORDER):
        raise ValueError(f"{{length}} positions, expected a multiple of {{len(ORDER)}}")
    tiles = np.arange(0, length, len(ORDER))
    return np.take(weights, (tiles[:, None] + ORDER).ravel(), axis=axis)
'''


def c_text(name: str, order: tuple[int, ...], words: str, purpose: str) -> str:
    """A header with `int NAME_permute_weights(given, permuted, outer, length, inner_bytes)`."""
    guard = f"{name.upper()}_WEIGHTS_H"
    numbers = textwrap.fill(
        ", ".join(map(str, order)), 100, initial_indent=" " * 8, subsequent_indent=" " * 8
    )
    return f"""// {words}
// {purpose}
#ifndef {guard}
#define {guard}

#include <stddef.h>
#include <string.h>

// `given` is an array [outer][length][inner_bytes] permuted along its middle axis. Position p of `permuted`,
// which must be other memory, receives what was at order[p], tile by tile. Returns 0, or -1 if `length` is no
// multiple of {len(order)}.
static inline int {name}_permute_weights(
    const void *given, void *permuted, size_t outer, size_t length, size_t inner_bytes) {{
    static const size_t order[{len(order)}] = {{
{numbers}
    }};
    if (length % {len(order)}u != 0) {{
        return -1;
    }}
    for (size_t row = 0; row < outer * length; ++row) {{
        size_t position = row % {len(order)}u;
        memcpy((char *)permuted + row * inner_bytes,
               (const char *)given + (row - position + order[position]) * inner_bytes, inner_bytes);
    }}
    return 0;
}}

#endif  // {guard}
"""
