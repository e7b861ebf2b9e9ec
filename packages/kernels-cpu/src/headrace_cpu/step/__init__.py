"""Steps: the generated lines of Python around drivers."""
