"""Philox4x32-10 in loops: words of a stream by their numbers, many at once.

A block gives four words. Where a vector has the words of consecutive numbers, the first of them the first of a block,
each block is computed once, in a lane of 64 bits of its own, so that its products are instructions of the processor;
otherwise each word has a lane that computes its block.
"""

from __future__ import annotations

from headrace_cpu.llvm.text import Text

__all__ = ["write_blocks", "write_words"]

ROUNDS = 10
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
LOW = 0xFFFF_FFFF


def write_blocks(lanes: int) -> tuple[str, str]:
    """A function `(key, low, high, block)` of scalars that gives the words of consecutive blocks.

    Args:
      lanes: how many words, a multiple of 4.
    Returns:
      Its symbol and its definition.
    """
    blocks = lanes // 4
    t = Text(lanes=blocks)
    numbers = t.number(0, "i64") if blocks == 1 else "<" + ", ".join(f"i64 {block}" for block in range(blocks)) + ">"
    key, low, high, first = (t.splat(f"%{name}", "i64") for name in ("key", "low", "high", "block"))
    words = _mixed(t, key, low, high, t.two("add", first, numbers, "i64"))
    pairs = [_paired(t, words[0], words[1]), _paired(t, words[2], words[3])]
    if blocks == 1:
        pairs = [t.put(f"insertelement <1 x i64> poison, i64 {pair}, i64 0") for pair in pairs]
    order = ", ".join(f"i32 {block + half}" for block in range(blocks) for half in (0, blocks))
    half = f"<{blocks} x i64>"
    joined = t.put(f"shufflevector {half} {pairs[0]}, {half} {pairs[1]}, <{2 * blocks} x i32> <{order}>")
    result = t.put(f"bitcast <{2 * blocks} x i64> {joined} to <{lanes} x i32>")
    symbol = f"hr.philox.blocks{blocks}"
    given = "i64 %key, i64 %low, i64 %high, i64 %block"
    return symbol, _definition(symbol, f"<{lanes} x i32>", given, t, result)


def write_words(lanes: int) -> tuple[str, str]:
    """A function `(key, low, high, number)` of vectors that gives the word of each number.

    Args:
      lanes: how many.
    Returns:
      Its symbol and its definition.
    """
    t = Text(lanes=lanes)
    whole = t.type("i64")
    words = _mixed(t, "%key", "%low", "%high", t.two("lshr", "%number", t.number(2, "i64"), "i64"))
    place = t.two("and", "%number", t.number(3, "i64"), "i64")
    result = words[3]
    for number in (2, 1, 0):
        own = t.put(f"icmp eq {whole} {place}, {t.number(number, 'i64')}")
        result = t.select(own, words[number], result, "i64")
    result = t.convert("trunc", result, "i64", "i32")
    symbol = f"hr.philox.words{lanes}"
    given = ", ".join(f"{whole} %{name}" for name in ("key", "low", "high", "number"))
    return symbol, _definition(symbol, t.type("i32"), given, t, result)


def _definition(symbol: str, kind: str, given: str, t: Text, result: str) -> str:
    head = f"define internal {kind} @{symbol}({given}) alwaysinline {{"
    return "\n".join([head, *t.lines, f"  ret {kind} {result}", "}"])


def _mixed(t: Text, key: str, low: str, high: str, block: str) -> list[str]:
    """The four words of a block for each lane, each below 2**32 in an i64."""
    mask, half = t.number(LOW, "i64"), t.number(32, "i64")
    place = t.two("add", low, block, "i64")
    carried = t.put(f"icmp ult {t.type('i64')} {place}, {block}")
    above = t.two("add", high, t.convert("zext", carried, "i1", "i64"), "i64")
    even = [t.two("and", item, mask, "i64") for item in (place, above)]
    odd = [t.two("lshr", item, half, "i64") for item in (place, above)]
    keys = [t.two("and", key, mask, "i64"), t.two("lshr", key, half, "i64")]
    for turn in range(ROUNDS):
        if turn:
            keys = [
                t.two("and", t.two("add", item, t.number(step, "i64"), "i64"), mask, "i64")
                for item, step in zip(keys, WEYL, strict=True)
            ]
        products = [
            t.two("mul", item, t.number(factor, "i64"), "i64") for item, factor in zip(even, MULTIPLIERS, strict=True)
        ]
        crossed = products[::-1]
        even = [
            t.two("xor", t.two("xor", t.two("lshr", product, half, "i64"), other, "i64"), own, "i64")
            for product, other, own in zip(crossed, odd, keys, strict=True)
        ]
        odd = [t.two("and", product, mask, "i64") for product in crossed]
    return [even[0], odd[0], even[1], odd[1]]


def _paired(t: Text, low: str, high: str) -> str:
    """Two words of 32 bits as one of 64, the first one in front."""
    return t.two("or", t.two("shl", high, t.number(32, "i64"), "i64"), low, "i64")
