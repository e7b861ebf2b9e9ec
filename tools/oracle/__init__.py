"""Compare Headrace with TensorFlow and record the result: `nox -s oracle`.

`cases` runs every operation case against TensorFlow's operation of that name, `graphs` sends random graphs both ways,
and `__main__` writes docs/oracle.md.
"""
