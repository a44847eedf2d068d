"""Makes the seeds of the fuzz target of NumPy's files: arrays as NumPy saves them, and a byte behind each."""

import sys

import numpy as np

for number, kind in enumerate(("f8", "f4", "f2", "c16", "c8", "i1", "u8", ">i4", "?", "f8")):
    values = np.arange(12).reshape(3, 4).astype(kind)
    path = f"{sys.argv[1]}/{number}.npy"
    np.save(path, np.asfortranarray(values) if number % 3 == 1 else values[0] if number == 9 else values)
    with open(path, "ab") as file:
        file.write(b"\xff")
