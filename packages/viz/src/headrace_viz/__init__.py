"""Write scalars and graphs as event files that TensorBoard reads."""
