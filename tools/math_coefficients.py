#!/usr/bin/env python3
"""Makes ir/math_coefficients.def: minimax coefficients of the vector math of ir/math*.c.

    tools/math_coefficients.py > ir/math_coefficients.def     (needs mpmath)
    tools/math_coefficients.py --check ir/math_coefficients.def    fails if the file is not what this script makes;
                                                              77 (skipped) without mpmath

Every polynomial is found by the Remez exchange on a fixed Chebyshev grid in 60 digits.  Coefficients are then rounded
to their type one by one, lowest power first, and the ones above are fitted anew each time, so that they make up for the
rounding.  No random numbers, no dependence on the machine: the output is a function of this file.
"""
import contextlib
import io
import sys

try:
    import mpmath
except ImportError:
    print("math_coefficients.py: needs mpmath")
    sys.exit(77)
from mpmath import mp, mpf, matrix, lu_solve

mp.dps = 60
BITS = {"F32": 24, "F64": 53}


def round_to(value, bits):
    """The nearest number of `bits` significant bits (ties away: never met here)."""
    if value == 0:
        return mpf(0)
    mantissa, exponent = mpmath.frexp(value)
    return mpmath.nint(mpmath.ldexp(mantissa, bits)) * mpf(2) ** (int(exponent) - bits)


def chebyshev_grid(low, high, count):
    middle, half = (low + high) / 2, (high - low) / 2
    return [middle - half * mpmath.cos(mpmath.pi * k / (count - 1)) for k in range(count)]


def remez(target, columns, weights):
    """Coefficients c that minimise max |w (target - sum c_i column_i)| over the grid (Remez exchange)."""
    n, points = len(columns), len(target)
    heavy = [p for p in range(points) if weights[p] > max(weights) / 10 ** 4]
    reference = [heavy[int(round(k * (len(heavy) - 1) / mpf(n)))] for k in range(n + 1)]
    best = None
    for _ in range(60):
        system, right = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for row, at in enumerate(reference):
            for column in range(n):
                system[row, column] = columns[column][at]
            system[row, n] = (-1) ** row / weights[at]
            right[row] = target[at]
        solution = lu_solve(system, right)
        coefficients = [solution[k] for k in range(n)]
        errors = [weights[p] * (target[p] - sum(c * column[p] for c, column in zip(coefficients, columns)))
                  for p in range(points)]
        largest = max(abs(e) for e in errors)
        if best is None or largest < best[0]:
            best = (largest, coefficients)
        if largest <= abs(solution[n]) * (1 + mpf(10) ** -4):
            break
        extrema = []                                 # one extremum for each run of equal sign
        for p in range(points):
            if extrema and (errors[p] > 0) == (errors[extrema[-1]] > 0):
                if abs(errors[p]) > abs(errors[extrema[-1]]):
                    extrema[-1] = p
            else:
                extrema.append(p)
        while len(extrema) > n + 1:                  # drop the weaker end, or the weakest neighbouring pair
            if len(extrema) == n + 2:
                extrema.pop(0 if abs(errors[extrema[0]]) < abs(errors[extrema[-1]]) else -1)
            else:
                at = min(range(len(extrema) - 1),
                         key=lambda k: max(abs(errors[extrema[k]]), abs(errors[extrema[k + 1]])))
                del extrema[at:at + 2]
        if len(extrema) < n + 1:
            break
        reference = extrema
    return best


def fit(function, powers, low, high, weight, bits, points=None):
    """Rounded coefficients of sum c_i x^powers[i] for function on [low, high], and the weighted error left."""
    low, high = mpf(low), mpf(high)
    grid = chebyshev_grid(low, high, points or 24 * (len(powers) + 2))
    target = [function(x) for x in grid]
    weights = [weight(x) for x in grid]
    done, rest = [], target
    usable = [k for k, x in enumerate(grid) if abs(x) > (high - low) * mpf(10) ** -12]
    for k, power in enumerate(powers):
        # What is left is a multiple of x^power: without that factor the basis is a Haar system, and errors alternate.
        _, coefficients = remez([rest[i] / grid[i] ** power for i in usable],
                                [[grid[i] ** (p - power) for i in usable] for p in powers[k:]],
                                [weights[i] * abs(grid[i]) ** power for i in usable])
        c = round_to(coefficients[0], bits)
        done.append(c)
        rest = [r - c * x ** power for r, x in zip(rest, grid)]
    return done, max(abs(w * r) for w, r in zip(weights, rest))


def hexadecimal(value):
    if value == 0:
        return "0x0p+0"
    sign = "-" if value < 0 else ""
    mantissa, exponent = mpmath.frexp(abs(value))
    integer = int(mpmath.ldexp(mantissa, 53))
    assert mpf(integer) * mpf(2) ** (int(exponent) - 53) == abs(value)
    digits = "%013x" % ((integer - (1 << 52)))
    return "%s0x1.%sp%+d" % (sign, digits.rstrip("0") or "0", int(exponent) - 1)


def emit(name, domain, error, coefficients):
    """One row; Horner's rule wants the highest power first."""
    text = 'NST_MATH_TABLE(%s, "%s", "%s"' % (name, domain, "2^" + mpmath.nstr(mpmath.log(error, 2), 4) if error else "parts")
    line, lines = text, []
    for c in reversed(coefficients):
        piece = hexadecimal(c)
        if len(line) + len(piece) + 2 > 116:
            lines.append(line + ",")
            line = "               " + piece
        else:
            line += ", " + piece
    lines.append(line + ")")
    print("\n".join(lines))


def table(name, domain, function, powers, low, high, weight, points=None):
    coefficients, error = fit(function, powers, low, high, weight, BITS[name[-3:]], points)
    emit(name, domain, error, coefficients)


def split(value, bits):
    """value as a sum of parts of so many bits each (the last one fills up)."""
    parts = []
    for b in bits:
        parts.append(round_to(value, b))
        value -= parts[-1]
    return parts


def near_zero(function, series):
    """function, but a Taylor series next to 0 where the closed form cancels."""
    return lambda x: series(x) if abs(x) < mpf(10) ** -6 else function(x)


def taylor(function, terms=8):
    """Series at 0 of a closed form that cancels there, from its values in many more digits."""
    def at(x):
        with mpmath.workdps(160):
            return function(mpf(x) if x else mpf(10) ** -70)
    return at


def exponentials():
    half = mpmath.log(2) / 2
    def q(r):
        return (mpmath.expm1(r) - r) / r ** 2
    for name, count, margin in (("EXP_F32", 5, mpf("1.0002")), ("EXP_F64", 10, mpf("1.0002"))):
        table(name, "|r| <= ln2/2; exp(r) = 1 + r + r^2 q(r), relative", taylor(q), range(count), -half * margin, half * margin,
              lambda r: r ** 2 / mpmath.exp(r))
    table("EXP_16TH_F32", "|r| <= ln2/32; exp(r) = 1 + r + r^2 q(r), relative", taylor(q), range(2), -half / 16 * mpf("1.001"),
          half / 16 * mpf("1.001"), lambda r: r ** 2 / mpmath.exp(r))
    for name, bits in BITS.items():
        emit("SIXTEENTHS_" + name, "2^(k/16), k = 15 .. 0, rounded", mpf(0), [round_to(mpf(2) ** (mpf(k) / 16), bits) for k in range(16)])
    def power(r):
        return mpf(2) ** r
    for name, count, text in (("EXP2_F32", 6, "erf"), ("EXP2_POW_F64", 8, "f32 pow"), ("EXP2_F64", 11, "erf")):
        table(name, "|r| <= 1/2; 2^r, for %s, relative" % text, power, range(count), -0.5, 0.5, lambda r: mpf(2) ** -r)
    table("EXP2_FULL_F64", "|r| <= 1/2; 2^r = 1 + r p(r), for f64 pow, relative", taylor(lambda r: (mpf(2) ** r - 1) / r), range(12),
          mpf("-0.5001"), mpf("0.5001"), lambda r: abs(r) * mpf(2) ** -r)
    for name, bits in (("LN2_F32", (14, 24)), ("LN2_F64", (40, 53))):
        emit(name, "ln 2 in two parts, low part first", mpf(0), split(mpmath.log(2), bits))


def logarithms():
    third = mpf(1) / 3
    def p(f):
        return (mpmath.log1p(f) - f + f * f / 2) / f ** 3
    def relative(f):
        return abs(f ** 3 / mpmath.log1p(f)) if f else mpf(0) + mpf(10) ** -30
    table("LOG_F32", "|f| <= 1/3; log(1+f) = f - f^2/2 + f^3 p(f), relative", taylor(p), range(8), -third * mpf("1.00001"), third, relative)
    def s_form(z):                                   # log(1+f) = 2 s + s^3 p(s^2), s = f/(2+f)
        s = mpmath.sqrt(z)
        return (2 * mpmath.atanh(s) - 2 * s) / s ** 3
    limit = (mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1)
    table("LOG_F64", "z <= 0.0295; log((1+s)/(1-s)) = 2 s + s^3 p(s^2), relative", taylor(s_form), range(7), 0, limit ** 2 * mpf("1.0001"),
          lambda z: z / 2 + mpf(10) ** -30)
    def log2_form(f):
        return mpmath.log1p(f) / f / mpmath.log(2)
    table("LOG2_POW_F64", "|f| <= 1/3; log2(1+f) = f p(f), for f32 pow, relative", taylor(log2_form), range(13), -third * mpf("1.00001"), third,
          lambda f: 1 / taylor(log2_form)(f))

    def tail(z):                                     # log2((1+s)/(1-s)) = s (c0 + z (c1 + z q(z))), c0 and c1 in two parts
        s = mpmath.sqrt(z)
        return 2 / mpmath.log(2) * (mpmath.atanh(s) / s - 1 - z / 3) / z ** 2
    table("LOG2_TAIL_F64", "z <= 0.0295; log2((1+s)/(1-s)) = s (2/ln2 + z (2/(3 ln2) + z q(z))), for f64 pow, relative", taylor(tail),
          range(8), 0, limit ** 2 * mpf("1.0001"), lambda z: z ** 2 / 3 + mpf(10) ** -30)
    for name, value in (("TWO_OVER_LN2_F64", 2 / mpmath.log(2)), ("TWO_THIRDS_OVER_LN2_F64", 2 / mpmath.log(2) / 3)):
        emit(name, "in two parts, low part first", mpf(0), split(value, (53, 53)))


def circular():
    quarter = mpmath.pi / 4 * mpf("1.0001")
    def sine(z):
        r = mpmath.sqrt(z)
        return (mpmath.sin(r) - r) / r ** 3
    def cosine(z):
        r = mpmath.sqrt(z)
        return (mpmath.cos(r) - 1 + z / 2) / z ** 2
    tiny = mpf(10) ** -30
    for name, count in (("SIN_F32", 3), ("SIN_F64", 6)):
        table(name, "|r| <= pi/4; sin r = r + r^3 p(r^2), relative", taylor(sine), range(count), 0, quarter ** 2,
              lambda z: z * mpmath.sqrt(z) / mpmath.sin(mpmath.sqrt(z)) if z else tiny)
    for name, count in (("COS_F32", 3), ("COS_F64", 6)):
        table(name, "|r| <= pi/4; cos r = 1 - r^2/2 + r^4 p(r^2), relative", taylor(cosine), range(count), 0, quarter ** 2,
              lambda z: z ** 2 / mpmath.cos(mpmath.sqrt(z)) + tiny)
    def arcsine(z):
        r = mpmath.sqrt(z)
        return (mpmath.asin(r) - r) / r ** 3
    for name, count in (("ASIN_F32", 5), ("ASIN_F64", 12)):
        table(name, "|r| <= 1/2; asin r = r + r^3 p(r^2), relative", taylor(arcsine), range(count), 0, mpf(1) / 4,
              lambda z: z * mpmath.sqrt(z) / mpmath.asin(mpmath.sqrt(z)) if z else tiny)
    def arctangent(z):
        r = mpmath.sqrt(z)
        return (mpmath.atan(r) - r) / r ** 3
    for name, count, limit, text in (("ATAN_F32", 8, mpf(1), "1"), ("ATAN_F64", 12, mpmath.sqrt(2) - 1, "tan(pi/8)")):
        table(name, "|r| <= %s; atan r = r + r^3 p(r^2), relative" % text, taylor(arctangent), range(count), 0, limit ** 2 * mpf("1.0001"),
              lambda z: z * mpmath.sqrt(z) / mpmath.atan(mpmath.sqrt(z)) if z else tiny)
    for name, bits in (("PIO2_F32", (24, 24)), ("PIO2_F64", (53, 53)), ("PIO2_SHORT_F64", (26, 53))):
        emit(name, "pi/2 in two parts, low part first", mpf(0), split(mpmath.pi / 2, bits))


def error_function():
    def small(z):
        r = mpmath.sqrt(z)
        return mpmath.erf(r) / r - 1
    for name, count, limit in (("ERF_SMALL_F32", 6, mpf(1)), ("ERF_SMALL_F64", 13, mpf(1))):
        table(name, "|x| <= %s; erf x = x + x p(x^2), relative" % mpmath.nstr(limit, 3), taylor(small), range(count), 0, limit ** 2,
              lambda z: 1 / (1 + taylor(small)(z)))
    def exponent(x):
        return mpmath.log(mpmath.erfc(x), 2)
    for name, count, limit in (("ERF_LARGE_F32", 7, "3.93"), ("ERF_LARGE_F64", 18, "5.93")):
        table(name, "1 <= x <= %s; erf x = 1 - 2^p(x), absolute" % limit, exponent, range(count), 1, mpf(limit),
              lambda x: mpmath.erfc(x) * mpmath.log(2))


def words_of_two_over_pi():
    """2/pi behind 26 (f32) or 2 zero bits (f64), cut into 32-bit words: the table of Payne and Hanek's reduction."""
    with mpmath.workdps(500):
        for name, zeros, count in (("TWO_OVER_PI_F32", 26, 8), ("TWO_OVER_PI_F64", 55, 42)):
            value = int(mpmath.floor(mpf(2) / mpmath.pi * mpf(2) ** (32 * count - zeros)))
            words = [(value >> (32 * (count - 1 - k))) & 0xffffffff for k in range(count)]
            print("NST_MATH_WORDS(%s," % name)
            for k in range(0, count, 8):
                print("               " + ", ".join("0x%08x" % w for w in words[k:k + 8]) + ("," if k + 8 < count else ")"))


def make():
    print("/* math_coefficients.def: made by tools/math_coefficients.py; do not edit.")
    print(" * NST_MATH_TABLE(name, range and form, error of the polynomial alone, coefficients, highest power first)")
    print(" * NST_MATH_WORDS(name, 32-bit words, most significant first) */")
    for part in (exponentials, logarithms, circular, error_function, words_of_two_over_pi):
        part()


def main():
    if sys.argv[1:2] != ["--check"]:
        make()
        return 0
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        make()
    with open(sys.argv[2], encoding="ascii") as file:
        if file.read() == text.getvalue():
            return 0
    print("%s differs from what tools/math_coefficients.py makes" % sys.argv[2])
    return 1


sys.exit(main())
