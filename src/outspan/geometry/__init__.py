"""Pure functions on arrays: the subspace, the energy, its diagnostics. Knows numpy and nothing else."""
