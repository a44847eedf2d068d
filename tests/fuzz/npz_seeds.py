"""Makes the seeds of the fuzz target of archives: as NumPy and SciPy save them."""

import sys

import numpy as np
import scipy.sparse

matrix = scipy.sparse.coo_matrix(([1.0, 2.0, 3.0], ([0, 2, 2], [1, 0, 3])), (3, 4))
for kind in ("csr", "csc", "coo", "bsr", "dia"):
    for compressed in (False, True):
        scipy.sparse.save_npz(f"{sys.argv[1]}/{kind}{compressed}.npz", matrix.asformat(kind), compressed)
for name, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
    save(f"{sys.argv[1]}/{name}.npz", A=np.arange(12.0).reshape(3, 4))
