#!/usr/bin/env python3
"""Draws the pictures of the ladders of sparse matrices, of the parts that draw.py has.

Usage: docs/guide/draw_sparse.py
"""

from draw import N, apart, grid, marked, picture, strips, write

# Entries of a small matrix, row by row: those of every picture.
entries = [(0, 1), (0, 6), (1, 3), (2, 0), (2, 3), (2, 7), (3, 5), (4, 1), (4, 2), (5, 3), (6, 0), (6, 4), (7, 6), (7, 7)]


def stored(title, kinds, *notes):
    """The matrix, whose entries have numbers in the order in which they are stored."""
    return grid(title, {place: (kinds(i), i + 1) for i, place in enumerate(entries)}, *notes)


def turned(title, kinds, *notes):
    return grid(title, {(col, row): (kinds(i), i + 1) for i, (row, col) in enumerate(entries)}, *notes)


def share(i):
    return "now" if i < len(entries) // 2 else "own"


def block(i):
    return "now" if entries[i][1] < N // 2 else "own"


def transpose_cpu():
    yield "serial", picture(
        stored("A, in its order", lambda i: "next", "read along its rows"),
        turned("result", lambda i: "slow", "each entry into the next place of its row:", "a cache line of three arrays"),
    )
    yield "counting", picture(
        stored("A, by shares of entries", share, "blue: one thread, green: the other"),
        strips("first", [("blue", [("counts", "now", 4)]), ("green", [("counts", "own", 4)])], "what the others have says where", "each thread begins"),
        turned("result", share, "two cores wait for cache lines at once"),
    )
    yield "blocked", picture(
        stored("A", block, "first into two blocks of columns,", "written in runs"),
        strips("blocks", [("columns 0-3", [(str(i + 1), "now", 1) for i in range(len(entries)) if block(i) == "now"]),
                          ("columns 4-7", [(str(i + 1), "own", 1) for i in range(len(entries)) if block(i) == "own"])], "each fits the cache"),
        turned("result", block, "then each block is sorted", "where all its places are in the cache"),
    )


def transpose_gpu():
    yield "atomic", picture(
        stored("A, a thread an entry", lambda i: "now", "all threads at once"),
        turned("result", lambda i: "slow", "each asks its column's counter for a place;", "as they answer in any order,", "rows are sorted afterwards"),
    )
    yield "sorted", picture(
        strips("bits of the column", [("step 1", [("low 8", "now", 4)]), ("step 2", [("middle 8", "own", 4)]), ("step 3", [("high 8", "other", 4)])],
               "each step: tiles count, sums say where,", "entries are written in runs"),
        turned("result", lambda i: "own", "in order, by itself"),
    )
    yield "blocked", picture(
        strips("bits of the column", [("step 1", [("the high half", "now", 6)]), ("step 2", [("the low half", "own", 6)])],
               "a counter in shared memory", "for each column of a block"),
        turned("result", block, "two steps, whatever the width"),
    )
    yield "onesweep", picture(
        strips("tiles", [("tile 1", [("all before", "own", 6)]), ("tile 2", [("its own", "own", 6)]), ("tile 3", [("looks back", "now", 6)])],
               "counts of the tiles before are added up", "until one knows all before itself"),
        turned("result", lambda i: "own", "each step reads and writes", "an entry once"),
    )

b = {(row, col): "next" for row in range(N) for col in range(4)}


def rows_of_b(row, kind="now"):
    return {**b, **{(col, j): kind for (i, col) in entries if i == row for j in range(4)}}


def a_row(row, kind="now"):
    return grid("A", {place: (kind, "") if place[0] == row else "none" for place in entries}, f"row {row}: three entries")


def dense_cpu():
    gathered = grid("B", rows_of_b(2), "its rows are read where A has entries", cols=4)
    yield "serial", picture(a_row(2), gathered, grid("C", marked("slow", [(2, j) for j in range(4)]), "added to in memory,", "entry after entry", cols=4))
    yield "rows", picture(
        grid("A", {(i, j): "now" if i < 4 else "own" for i, j in entries}, "half of the rows a thread"),
        grid("C", {(i, j): "now" if i < 4 else "own" for i in range(N) for j in range(4)}, "each thread writes its own rows", cols=4),
    )
    yield "merge", apart(
        strips("by rows", [("thread 1", [("1 row", "now", 2), ("a long row", "slow", 9)]), ("thread 2", [("rows", "own", 3), ("waits", "none", 8)])]),
        strips("by rows and entries", [("thread 1", [("1 row", "now", 2), ("its half", "now", 5)]), ("thread 2", [("its half", "own", 4), ("rows", "own", 3)])],
               "a long row is cut; its parts are added in order"),
    )
    yield "tiled", picture(
        a_row(2),
        grid("B", {**rows_of_b(2), **{(5, j): "other" for j in range(4)}}, "the next rows are fetched", "while these are used (orange)", cols=4),
        grid("registers", marked("own", [(0, j) for j in range(4)]), "sums stay here", rows=1, cols=4),
        grid("C", marked("now", [(2, j) for j in range(4)]), "written once, past the caches", cols=4),
    )


def dense_gpu():
    yield "serial", picture(
        grid("A", {place: ("slow", "") if place[0] == 2 else "none" for place in entries}, "all threads of a row of C", "load the same entries"),
        grid("C", {(2, j): ("now", j) for j in range(4)}, "a thread an element", cols=4),
    )
    yield "rows", picture(
        grid("A", {place: ("now", lane) for lane, place in enumerate(p for p in entries if p[0] == 2)}, "lanes read entries together,", "and hand them on"),
        grid("C", {(2, j): ("now", j) for j in range(4)}, "a warp a row", cols=4),
    )
    yield "merge", apart(
        strips("a warp a row", [("warp 1", [("a long row", "slow", 10)]), ("warp 2", [("row", "now", 2), ("done", "none", 8)])]),
        strips("equal shares", [("warp 1", [("a half", "now", 6)]), ("warp 2", [("a half", "own", 5), ("r", "own", 1)])], "parts of a row are added in their order"),
    )
    yield "tiled", picture(
        grid("A", {place: (("now", "own", "other")[lane], lane) for lane, place in enumerate(p for p in entries if p[0] == 2)}, "lanes to spare take the next entry"),
        grid("B", {**b, **{(col, j): kind for col, kind in ((0, "now"), (3, "own"), (7, "other")) for j in range(4)}}, "words of 16 bytes a lane", cols=4),
    )


def product_cpu():
    products = [("3", "now", 1), ("6", "now", 1), ("1", "own", 1), ("3", "own", 1), ("0", "other", 1), ("6", "other", 1)]
    yield "expand", apart(
        strips("columns of a row's products", [("written", products)], "first: colours are rows of B"),
        strips("sorted", [("", [(w, k, 1) for w, k in (("0", "other"), ("1", "own"), ("3", "now"), ("3", "own"), ("6", "now"), ("6", "other"))])], "then: equal ones are neighbours"),
        strips("added up", [("", [(w, "now", 1) for w in ("0", "1", "3", "6")])]),
    )
    yield "hash", apart(
        strips("products", [("", products)], "one after the other"),
        strips("table of sums", [("", [("", "none", 1), ("6", "now", 1), ("", "none", 1), ("1", "now", 1), ("3", "now", 1), ("0", "now", 1), ("", "none", 2)])], "each finds its column's sum,", "or an empty place"),
        strips("sorted", [("", [(w, "now", 1) for w in ("0", "1", "3", "6")])], "entries alone, not products"),
    )
    yield "binned", apart(
        strips("few products", [("merged", [(w, k, 1) for w, k in (("0", "other"), ("1", "own"), ("3", "now"), ("6", "now"))])], "row of B by row of B"),
        strips("some", [("table", [("", "none", 1), ("6", "now", 1), ("1", "now", 1), ("", "none", 1), ("3", "now", 1)])], "as in hash"),
        strips("many", [("sums", [(str(i), "now" if i % 3 else "none", 1) for i in range(N)])], "a sum for each column,", "and a bit: is it there"),
    )


def reduce_cpu():
    chain = [("+", "now", 1.5), ("wait", "slow", 2)] * 4
    yield "serial", picture(
        stored("A", lambda i: "now", "its entries, as they lie;", "one zero for all others"),
        strips("one core", [("sum", chain)], "each addition waits for the one before it"),
    )
    vectors = [(f"sum {i}", [("", None, 1.5 * i)] + [("+ + + +", "now", 3), ("", "none", 3)] * 2) for i in range(4)]
    yield "rows", picture(
        grid("values", marked("now", [(0, j) for j in range(N)]), "without gaps, row after row", rows=1),
        strips("each thread", vectors, "vectors of sums take turns"),
    )


LADDERS = {
    "sparse-transpose-cpu": transpose_cpu,
    "sparse-transpose-gpu": transpose_gpu,
    "sparse-dense-cpu": dense_cpu,
    "sparse-dense-gpu": dense_gpu,
    "sparse-sparse-cpu": product_cpu,
    "sparse-reduce-cpu": reduce_cpu,
}


def pictures():
    """The text of each picture, by the name of its file."""
    return {f"{ladder}-{level}.svg": svg for ladder, rungs in LADDERS.items() for level, svg in rungs()}


if __name__ == "__main__":
    write(pictures())
