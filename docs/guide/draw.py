#!/usr/bin/env python3
"""Draws the access pattern of each rung as SVG: pictures/OPERATION-DEVICE-LEVEL.svg beside this script.

Usage: docs/guide/draw.py

A warp is drawn as eight lanes, a row of eight elements as one sector of memory. The colours follow the reader's light or
dark theme.
"""

import os
from collections import namedtuple
from html import escape

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pictures")
N = 8  # lanes of a warp, elements of a sector, banks of shared memory
CELL, GAP, TITLE, LINE = 18, 34, 20, 15
KINDS = ["now", "own", "other", "next"]  # of cells, beside "none" and "slow"

STYLE = """
  text { font: 11px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600 }
  .in { font-size: 9px; text-anchor: middle }
  .paper { fill: #ffffff } .none { fill: #f3f5f7 } .now { fill: #74a9f5 } .next { fill: #cfe1fc }
  .slow { fill: #f0868a } .own { fill: #8fd09a } .other { fill: #f3cd8a }
  rect.cell { stroke: #b3bcc6; stroke-width: 1 }
  .arrow { stroke: #57606a; stroke-width: 1.3; fill: none } .tip { fill: #57606a }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .paper { fill: #0d1117 } .none { fill: #1b222b } .now { fill: #2f6bc4 } .next { fill: #1d3a63 }
    .slow { fill: #a8363c } .own { fill: #2c7a3c } .other { fill: #8a621c }
    rect.cell { stroke: #4b5561 } .arrow { stroke: #9aa4af } .tip { fill: #9aa4af }
  }
"""

# ---------------------------------------------------------------------------------------------- parts of pictures

Part = namedtuple("Part", "width height svg")  # at the origin


def text(x, y, words, kind="plain"):
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'


def cell(x, y, width, height, kind, words=""):
    box = f'<rect class="cell {kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"/>'
    return box + (text(x + width / 2, y + height / 2 + 3.2, words, "in") if words != "" else "")


def arrow(x1, y1, x2, y2):
    """To the right or down."""
    tip = f"{x2 - 5:g},{y2 - 3:g} {x2:g},{y2:g} {x2 - 5:g},{y2 + 3:g}"
    if abs(y2 - y1) > abs(x2 - x1):
        tip = f"{x2 - 3:g},{y2 - 5:g} {x2:g},{y2:g} {x2 + 3:g},{y2 - 5:g}"
    return f'<path class="arrow" d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/><polygon class="tip" points="{tip}"/>'


def with_words(title, width, height, svg, notes):
    """A part under its title and above its notes."""
    lines = [text(0, 12, title, "title"), f'<g transform="translate(0 {TITLE})">{svg}</g>']
    lines += [text(0, TITLE + height + LINE * (i + 1), note) for i, note in enumerate(notes)]
    widest = max([6.1 * len(note) for note in notes] + [6.8 * len(title), width])
    return Part(widest, TITLE + height + LINE * len(notes) + 4, "".join(lines))


def grid(title, marks, *notes, rows=N, cols=N, labels=None):
    """Cells of a matrix or of shared memory. `marks`: (row, column) → kind, or (kind, words)."""
    svg = []
    for row in range(rows):
        for col in range(cols):
            kind, words = marks.get((row, col), "none"), ""
            if isinstance(kind, tuple):
                kind, words = kind
            if words == "" and labels:
                words = labels(row, col)
            svg.append(cell(col * CELL, row * CELL, CELL, CELL, kind, str(words)))
    return with_words(title, cols * CELL, rows * CELL, "".join(svg), notes)


def strips(title, rows, *notes):
    """Rows of boxes along time: (name, [(words, kind, cells) …])."""
    left = max(6.2 * len(name) for name, _ in rows) + 8
    svg, widest = [], 0
    for i, (name, boxes) in enumerate(rows):
        x, y = left, i * 1.5 * CELL
        svg.append(text(0, y + CELL / 2 + 4, name))
        for words, kind, cells in boxes:
            if kind:
                svg.append(cell(x, y, cells * CELL, CELL, kind, words))
            x += cells * CELL
        widest = max(widest, x)
    return with_words(title, widest, 1.5 * CELL * len(rows) - CELL / 2, "".join(svg), notes)


def tree(title, steps, *notes):
    """Numbers of eight threads, and step by step who adds which: [(name, [(thread, taken) …]) …]."""
    left, height = 62, 2.3 * CELL
    middle = lambda thread: left + (thread + 0.5) * 1.6 * CELL
    svg = []
    for row in range(len(steps) + 1):
        name, pairs = steps[row - 1] if row else ("elements", [(thread, thread) for thread in range(N)])
        svg.append(text(0, row * height + 13, name))
        busy = {thread for thread, _ in pairs}
        for thread in range(N):
            svg.append(
                cell(
                    middle(thread) - CELL / 2,
                    row * height,
                    CELL,
                    CELL,
                    "now" if thread in busy else "none",
                    str(thread),
                )
            )
        for thread, taken in pairs if row else []:
            for source in (thread, taken):
                svg.append(arrow(middle(source), (row - 1) * height + CELL, middle(thread), row * height))
    return with_words(title, middle(N), len(steps) * height + CELL, "".join(svg), notes)


def lanes(cells, kind="now"):
    """Marks of the lanes of a warp, in their order."""
    return {place: (kind, lane) for lane, place in enumerate(cells)}


def marked(kind, cells):
    return {place: kind for place in cells}


def flipped(marks):
    """The marks at their places in the transpose."""
    return {(col, row): mark for (row, col), mark in marks.items()}


def block(top, left, height, width, kind):
    return {(top + row, left + col): kind for row in range(height) for col in range(width)}


def row_of(row):
    return [(row, col) for col in range(N)]


def column_of(col):
    return [(row, col) for row in range(N)]


def bank(pitch):
    return lambda row, col: str((row * pitch + col) % N)


def picture(*parts, arrows=True):
    """Parts side by side, on paper."""
    x, svg = 12, []
    for i, part in enumerate(parts):
        if i and arrows:
            svg.append(arrow(x - GAP + 8, 12 + TITLE + 4 * CELL, x - 8, 12 + TITLE + 4 * CELL))
        svg.append(f'<g transform="translate({x:g} 12)">{part.svg}</g>')
        x += part.width + GAP
    width, height = x - GAP + 12, max(part.height for part in parts) + 24
    size = f'width="{width:g}" height="{height:g}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width:g} {height:g}">\n'
        f'<style>{STYLE}</style>\n<rect class="paper" {size}/>'
    )
    return "\n".join([head, *svg, "</svg>", ""])


def apart(*parts):
    """Parts side by side between which nothing moves."""
    return picture(*parts, arrows=False)


# ---------------------------------------------------------------------------------------------- transpose


def transpose_gpu():
    read_row = grid("input", lanes(row_of(2)), "1 sector for the warp")
    write_row = grid("output", lanes(row_of(5)), "1 sector for the warp")
    walked = {(row, col): "next" for row in range(3) for col in range(N) if (row, col) < (2, 3)}
    yield "serial", picture(
        grid("input", walked | {(2, 3): ("now", 0)}, "one thread, one element"),
        grid("output", flipped(walked) | {(3, 2): ("slow", 0)}, "a sector for each element"),
    )
    yield "per-row", picture(
        grid(
            "input",
            lanes(column_of(3), "slow") | marked("next", column_of(4)),
            "8 sectors; the next columns",
            "find them in the cache",
        ),
        grid("output", lanes(row_of(3)) | marked("next", row_of(4)), "1 sector"),
    )
    square = [(row, col) for row in (2, 3) for col in range(4)]
    yield "per-element", picture(
        grid("input", lanes(square), "2 sectors, half of each"),
        grid("output", flipped(lanes(square, "slow")), "4 sectors, 2 elements of each"),
    )
    four = [place for row in (2, 4, 6) for place in row_of(row)]
    yield "naive", picture(
        grid("input", lanes(row_of(0)) | marked("next", four), "1 sector, four times"),
        grid("output", lanes(column_of(0), "slow") | flipped(marked("next", four)), "8 sectors, four times"),
    )
    yield "tiled", picture(
        read_row,
        grid(
            "shared tile, by bank",
            marked("now", row_of(2)) | marked("slow", column_of(5)),
            "written along row 2: 8 banks",
            "read down column 5: 1 bank",
            labels=bank(N),
        ),
        write_row,
    )
    yield "padded", picture(
        read_row,
        grid(
            "shared tile, by bank",
            marked("now", row_of(2)) | marked("own", column_of(5)),
            "written along row 2: 8 banks",
            "read down column 5: 8 banks",
            cols=N + 1,
            labels=bank(N + 1),
        ),
        write_row,
    )
    channel = lambda row, col: str(col % 4)
    along, down = marked("now", row_of(0)), marked("slow", column_of(0))
    slanted = {(i, i): "own" for i in range(N)}
    yield "diagonal", apart(
        grid("padded: tiles read", along, "all 4 partitions", labels=channel),
        grid("padded: tiles written", down, "partition 0 alone", labels=channel),
        grid("diagonal: tiles read", slanted, "all 4 partitions", labels=channel),
        grid("diagonal: tiles written", slanted, "all 4 partitions", labels=channel),
    )
    square_of = lambda row, col: KINDS[(row // 2 + col // 2) % 4]
    squares = {(row, col): (square_of(row, col), row % 2 * 2 + col % 2 + 1) for row in range(N) for col in range(N)}
    swizzled = {(row, col): (KINDS[row], str(col ^ row)) for row in range(4) for col in range(4)}
    yield "vectorized", picture(
        grid("input, words of 2", squares, "a thread reads a square:", "2 words for 4 elements"),
        grid("shared, words", swizzled, "word w of row r", "lies at w xor r", rows=4, cols=4),
        grid("output, words of 2", flipped(squares), "transposed in registers,", "written in words"),
    )
    yield "tma", picture(
        grid("input", block(0, 0, N, N, "own"), "one instruction asks", "for the whole box"),
        grid("shared, words", swizzled, "the copy engine writes it", "swizzled", rows=4, cols=4),
        grid("output", flipped(squares), "threads transpose squares", "and write words"),
    )


def transpose_cpu():
    walked = {(row, col): "next" for row in range(3) for col in range(N) if (row, col) < (2, 3)}
    yield "serial", picture(
        grid("input", walked | {(2, 3): "now"}, "along a line"),
        grid("output", flipped(walked) | {(3, 2): "slow"}, "another line every time"),
    )
    halves = block(0, 0, 4, N, "now") | block(4, 0, 4, N, "own")
    yield "per-row", picture(
        grid("input", halves, "a run of rows a thread"),
        grid("output", flipped(halves), "each line once a column,", "if the cache forgets it"),
    )
    tiles = {
        (row, col): ("next" if (row // 4 + col // 4) % 2 else "none", row // 4 * 2 + col // 4 + 1)
        for row in range(N)
        for col in range(N)
    }
    tiles |= {(row, col): ("now", 1) for row in range(4) for col in range(4)}
    yield "tiled", picture(
        grid("input", tiles, "tiles in their order"),
        grid("output", flipped(tiles), "a tile's lines stay", "in the cache"),
    )
    registers = {(row, col): KINDS[row % 4] for row in range(4) for col in range(N)}
    yield "vectorized", picture(
        grid("input", registers, "rows into registers", "ahead: the next tile"),
        grid(
            "registers",
            {(row, col): KINDS[col % 4] for row in range(N) for col in range(4)},
            "interleaved: transposed",
            cols=4,
        ),
        grid("output", marked("now", row_of(2)) | marked("next", row_of(3)), "whole lines, streamed", "past the cache"),
    )


# ---------------------------------------------------------------------------------------------- multiply


def multiply_gpu():
    broadcast = {(2, 3): ("own", "all")}
    c_row = grid("C", lanes(row_of(2)), "a row")
    yield "naive-strided", apart(
        grid("A", lanes(column_of(3), "slow"), "8 sectors a step"),
        grid("B", {(3, 2): ("own", "all")}, "one element for all"),
        grid("C", lanes(column_of(2), "slow"), "a column"),
    )
    yield "naive", apart(
        grid("A", broadcast, "one element for all"), grid("B", lanes(row_of(3)), "1 sector a step"), c_row
    )
    a_tile = grid(
        "A", block(4, 0, 4, 4, "next") | {(4, col): ("now", col) for col in range(4)}, "a tile, along its rows"
    )
    yield "tiled-uncoalesced", apart(
        a_tile,
        grid(
            "B", block(0, 4, 4, 4, "next") | {(row, 4): ("slow", row) for row in range(4)}, "a tile, down its columns"
        ),
        grid("C", block(4, 4, 4, 4, "own"), "each loaded element", "serves a row or column"),
    )
    shared_a = grid("shared A, row i, step k", broadcast, "one element for all")
    yield "tiled-conflicted", apart(
        shared_a,
        grid("shared B, kept [j][k]", marked("slow", column_of(3)), "8 lanes in 1 bank", labels=bank(N)),
        c_row,
    )
    yield "tiled", apart(
        shared_a, grid("shared B, kept [k][j]", marked("now", row_of(3)), "8 lanes in 8 banks", labels=bank(N)), c_row
    )
    two = grid("shared A", {(1, 3): ("own", "all"), (5, 3): ("own", "all")}, "two elements")
    c_two = grid("C", lanes(row_of(1)) | lanes(row_of(5)), "two rows")
    yield "coarsened", apart(
        two, grid("shared B", lanes(row_of(3)), "one element a lane:", "read once, used twice"), c_two
    )
    yield "coarsened-transposed", apart(
        two,
        grid(
            "shared B, [j][k], padded",
            marked("own", column_of(3)),
            "constant offsets,",
            "8 lanes in 8 banks",
            cols=N + 1,
            labels=bank(N + 1),
        ),
        c_two,
    )
    thread_column = block(0, 0, N, N, "next") | marked("now", column_of(2))
    outer = [
        grid("shared A, step k", marked("own", column_of(3)), "a column, the same", "for all lanes"),
        grid("B, step k", lanes(row_of(3)), "one element a lane,", "in a register"),
        grid("C", thread_column, "a column a lane,", "in registers"),
    ]
    yield "outer-product", apart(*outer)
    step, test = ("16 A×B", "now", 3.4), ("test", "other", 1.6)
    rolled = [("load", "other", 1.8), ("wait", "slow", 2.2), step, test, ("jump", "slow", 1.8)]
    yield "unrolled", picture(
        strips(
            "what a warp executes",
            [("outer-product", rolled * 2), ("unrolled", [("loads", "other", 2.2), *[step, test] * 4])],
            "the same multiply-adds; no jump between them, so the loads of several steps come first",
        )
    )
    load, wait, work = ("load A", "other", 3), ("wait", "slow", 3), ("16 steps", "now", 4)
    yield "prefetch", picture(
        strips(
            "what a block does",
            [
                ("unrolled", [load, wait, work, load, wait, work]),
                ("prefetch: buffer 0", [load, wait, work, load, ("", "none", 1), work]),
                ("prefetch: buffer 1", [("", None, 6), load, ("", "none", 1), work]),
            ],
            "the next tile of A is on its way while this one is used",
        )
    )
    fragment = marked("own", column_of(3))
    yield "register-blocked", apart(
        grid("a thread's part of A", fragment, "8 numbers in 2 reads"),
        grid("its part of B", marked("own", row_of(3)), "8 numbers in 2 reads"),
        grid("its part of C", block(0, 0, N, N, "now"), "64 multiply-adds"),
    )
    copy, idle, use = ("copy", "other", 3), ("", "none", 6), ("use", "now", 3)
    stages = [(f"stage {i}", [("", None, 3 * i), copy, idle, use, copy]) for i in range(4)]
    yield "pipelined", picture(
        strips(
            "shared memory, in stages", stages, "copies run some stages ahead; the multiply-adds never wait for memory"
        )
    )
    held = {(row, col): (KINDS[row % 4], row * 4 + col // 2) for row in range(N) for col in range(N)}
    read = column_of(2)
    piece = lambda row, col: str(col)
    swizzled = {(row, col): ("none", col ^ row) for row in range(N) for col in range(N)}
    yield "tensor", apart(
        grid("8 rows of A: who holds what", held, "lane 4r + c holds elements", "2c and 2c + 1 of row r"),
        grid("shared, as it came", marked("slow", read), "8 pieces, 8 lines:", "all in 1 group of banks", labels=piece),
        grid(
            "shared, swizzled",
            swizzled | {(row, 2 ^ row): ("now", 2) for row in range(N)},
            "piece p of line r lies at p xor r:",
            "8 groups of banks",
        ),
    )
    ask = lambda stage: (str(stage), "other", 2)
    multiply = lambda stage: (f"stage {stage}", "now", 3)
    roles = [
        ("4 warps that bring", [ask(1), ask(2), ask(3), *[("", "none", 1), ask(1)], *[("", "none", 1), ask(2)]]),
        ("4 warps, rows 0-63", [("", "none", 2), multiply(1), multiply(2), multiply(3), multiply(1)]),
        ("4 warps, rows 64-127", [("", "none", 2), multiply(1), multiply(2), multiply(3), multiply(1)]),
    ]
    halves = marked("own", [(row, col) for row in range(N) for col in range(N // 2)])
    others = marked("other", [(row, col) for row in range(N) for col in range(N // 2, N)])
    yield "wgmma", apart(
        strips("the warps of a block", roles, "a stage is brought again when both groups are done with it"),
        grid("B's tile, for two blocks", halves | others, "each brings one half,", "and both get all of it", rows=4),
    )


def multiply_cpu():
    yield "naive", apart(
        grid("A", marked("now", row_of(2)), "along a row"),
        grid("B", marked("slow", column_of(5)), "down a column:", "a line for each element"),
        grid("C", {(2, 5): "now"}, "one sum"),
    )
    yield "interchanged", apart(
        grid("A", {(2, 3): "own"}, "one element"),
        grid("B", marked("now", row_of(3)), "along a row"),
        grid("C", marked("now", row_of(2)), "a row of sums"),
    )
    yield "tiled", apart(
        grid("A", block(4, 0, 4, 4, "now"), "a tile, copied"),
        grid("B", block(0, 4, 4, 4, "now"), "a tile, copied"),
        grid("C", block(4, 4, 4, 4, "own"), "used 4 times each", "while in the cache"),
    )
    yield "outer-product", apart(
        grid("A, packed", {(row, 2): "own" for row in range(6)}, "a column of 12"),
        grid("B, packed", marked("now", row_of(2)), "a row of 32"),
        grid("C", block(0, 0, 6, N, "next"), "12×32 sums,", "in registers"),
    )


# ---------------------------------------------------------------------------------------------- reduce


def reduce_gpu():
    yield "interleaved", picture(
        tree(
            "one warp",
            [("stride 1", [(0, 1), (2, 3), (4, 5), (6, 7)]), ("stride 2", [(0, 2), (4, 6)]), ("stride 4", [(0, 4)])],
            "those that work lie ever further apart: every warp stays busy",
        )
    )
    yield "sequential", picture(
        tree(
            "one warp",
            [("stride 4", [(0, 4), (1, 5), (2, 6), (3, 7)]), ("stride 2", [(0, 2), (1, 3)]), ("stride 1", [(0, 1)])],
            "those that work are neighbours: whole warps are done early",
        )
    )
    words = {(row, col): ("now", col) for row in range(4) for col in range(N)}
    yield "shuffle", picture(
        grid(
            "memory, words of 16 bytes", words | block(4, 0, 4, N, "next"), "4 words of each lane", "are on their way"
        ),
        grid("registers", lanes(row_of(0)), "a sum a lane", rows=1),
        strips(
            "then",
            [
                ("in a warp", [("5 shuffles", "own", 5)]),
                ("in a block", [("shared memory", "own", 5)]),
                ("of all blocks", [("the last block", "own", 5)]),
            ],
        ),
    )


def reduce_cpu():
    chain = [("+", "now", 1.5), ("wait", "slow", 2)] * 4
    yield "serial", picture(strips("one core", [("sum", chain)], "each addition waits for the one before it"))
    vectors = [(f"sum {i}", [("", None, 1.5 * i)] + [("+ + + +", "now", 3), ("", "none", 3)] * 2) for i in range(4)]
    yield "vectorized", picture(
        strips(
            "one of the threads", vectors, "four vectors of sums: an addition can start while others are on their way"
        )
    )


LADDERS = {
    "transpose-gpu": transpose_gpu,
    "transpose-cpu": transpose_cpu,
    "multiply-gpu": multiply_gpu,
    "multiply-cpu": multiply_cpu,
    "reduce-gpu": reduce_gpu,
    "reduce-cpu": reduce_cpu,
}


def pictures():
    """The text of each picture, by the name of its file."""
    return {f"{ladder}-{level}.svg": svg for ladder, rungs in LADDERS.items() for level, svg in rungs()}


def write(drawn):
    os.makedirs(FOLDER, exist_ok=True)
    for name, svg in drawn.items():
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
            file.write(svg)


if __name__ == "__main__":
    write(pictures())
