"""Derive the polynomial of erfc(x) exp(x**2) on [1, 4] in u = (x - 2.5) / 1.5, and write `erfc_table.py`.

Chebyshev interpolation in 40 digits, turned into powers and rounded to float64; the largest relative error is printed.
"""

from __future__ import annotations

from pathlib import Path

import mpmath

DEGREE = 18
TABLE = Path(__file__).parent.parent / "src" / "headrace_cpu" / "erfc_table.py"
HEADER = (
    '"""Coefficients derived by `tools/derive_erfc.py`: erfc(x) exp(x**2) on [1, 4] by powers of (x - 2.5) / 1.5."""'
)


def main() -> None:
    """Interpolate, check on a fine grid, write."""
    mpmath.mp.dps = 40

    def scaled(u: mpmath.mpf) -> mpmath.mpf:
        x = u * 1.5 + 2.5
        return mpmath.erfc(x) * mpmath.exp(x * x)

    nodes = [mpmath.cos(mpmath.pi * (2 * k + 1) / (2 * (DEGREE + 1))) for k in range(DEGREE + 1)]
    matrix = mpmath.matrix(DEGREE + 1, DEGREE + 1)
    values = mpmath.matrix(DEGREE + 1, 1)
    for row, node in enumerate(nodes):
        values[row] = scaled(node)
        for column in range(DEGREE + 1):
            matrix[row, column] = node**column
    coefficients = [float(item) for item in mpmath.lu_solve(matrix, values)]
    grid = [mpmath.mpf(k) / 500 - 1 for k in range(1001)]
    worst = max(abs(sum(c * u**k for k, c in enumerate(coefficients)) / scaled(u) - 1) for u in grid)
    print(f"largest relative error {float(worst):.1e}")
    rows = "\n".join(f"    {item!r}," for item in coefficients)
    TABLE.write_text(f'{HEADER}\n\nfrom __future__ import annotations\n\n__all__ = ["ERFC"]\n\nERFC = (\n{rows}\n)\n')


if __name__ == "__main__":
    main()
