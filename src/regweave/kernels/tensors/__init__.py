"""Work on plain tensors of any rank between products: `lines` of the last axes are reduced or rewritten,
`moves` take elements elsewhere (transposes, slices, joins), `pairs` of computed matrices are multiplied."""

__all__: list[str] = []
