#!/usr/bin/env python3
"""Makes the sample matrices of examples/matrices (needs h5py and NumPy).

They are committed, so this is needed only to change them.

  poisson.mtx   4096x4096 symmetric real, coordinate: -Δ on a 64x64 grid, five-point stencil
  knights.mtx   64x64 symmetric pattern, coordinate: squares of a chessboard a knight's move apart
  fourier.mtx   64x64 complex, array: the discrete Fourier transform, exp(-2πi jk/64)
  heat.h5       /plate/temperature, 600x800 f32, chunked and compressed: a plate with three hot spots
"""
import pathlib

import h5py
import numpy as np

folder = pathlib.Path(__file__).parent / "matrices"


def write_coordinate(name, field, size, entries, comment):
    with open(folder / name, "w") as file:
        file.write(f"%%MatrixMarket matrix coordinate {field} symmetric\n% {comment}\n")
        file.write(f"{size} {size} {len(entries)}\n")
        for entry in entries:
            file.write(" ".join(map(str, entry)) + "\n")


def poisson(n=64):
    entries = []
    for y in range(n):
        for x in range(n):
            i = y * n + x + 1
            entries.append((i, i, 4.0))
            if x + 1 < n:
                entries.append((i + 1, i, -1.0))
            if y + 1 < n:
                entries.append((i + n, i, -1.0))
    comment = f"-Laplacian on a {n}x{n} grid, five-point stencil, zero boundary"
    write_coordinate("poisson.mtx", "real", n * n, entries, comment)


def knights():
    moves = [(1, 2), (2, 1), (2, -1), (1, -2)]  # the moves that go down the board
    entries = []
    for y in range(8):
        for x in range(8):
            for dy, dx in moves:
                if y + dy < 8 and 0 <= x + dx < 8:
                    entries.append(((y + dy) * 8 + x + dx + 1, y * 8 + x + 1))
    write_coordinate("knights.mtx", "pattern", 64, entries, "squares of a chessboard a knight's move apart")


def fourier(n=64):
    with open(folder / "fourier.mtx", "w") as file:
        file.write(f"%%MatrixMarket matrix array complex general\n% exp(-2 pi i j k / {n})\n{n} {n}\n")
        for k in range(n):
            for j in range(n):
                value = np.exp(-2j * np.pi * (j * k % n) / n)
                file.write(f"{value.real:.17g} {value.imag:.17g}\n")


def heat():
    y, x = np.mgrid[0:600, 0:800].astype(np.float64)
    plate = np.full(x.shape, 293.0)
    for cy, cx, peak, width in ((150, 200, 400, 60), (420, 500, 250, 110), (300, 700, 320, 40)):
        plate += peak * np.exp(-((y - cy) ** 2 + (x - cx) ** 2) / (2 * width**2))
    plate = np.round(plate * 8) / 8  # an eighth of a kelvin, as a camera resolves it
    with h5py.File(folder / "heat.h5", "w") as file:
        data = file.create_dataset("plate/temperature", data=plate.astype(np.float32), chunks=(100, 160),
                                   compression="gzip", compression_opts=6, shuffle=True)
        data.attrs["unit"] = "K"


folder.mkdir(exist_ok=True)
poisson()
knights()
fourier()
heat()
