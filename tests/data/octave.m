% Matrices of every class that Octave's `save -hdf5` writes, and values that are no matrices.
% octave.h5.gz is what Octave 7.3.0 of Debian 12 wrote: octave-cli --norc octave.m octave.h5; gzip -9n octave.h5
% (Octave 7 fails to save complex matrices of class single, so there are none.)
A = [1 2 3; 4 5 6];
F = single(A) / 4;
C = complex(A, -A / 8);
Z = complex(A, zeros(2, 3));
B = A > 2;
i1 = int8(A) - 7; i2 = int16(A) * 1000; i4 = int32(A) * -1e6; i8 = bitshift(int64(A), 60);
u1 = uint8(A) * 40; u2 = uint16(A) * 1e4; u4 = uint32(A) * 7e8; u8 = intmax("uint64") - uint64(A);
row = A(1, :); column = A(:, 1);
scalar = 2.5; single_scalar = single(1.5); complex_scalar = 1 + 2i; integer_scalar = int32(-7); truth = true;
diagonal = diag([1 2 3]); permutation = eye(3)([2 3 1], :);
special = [NaN Inf; -Inf -0];
no_rows = zeros(0, 3); no_columns = single(zeros(3, 0)); nothing = []; no_truth = true(0, 2); no_integers = zeros(2, 0, "int8");
sparse_real = sparse([1 4 2], [1 1 3], [1.5 2.5 -Inf], 4, 3);
sparse_complex = sparse([1 4 2], [1 1 3], [1.5+1i 2.5i -3], 4, 3);
sparse_truth = sparse([1 4 2], [1 1 3], true, 4, 3);
sparse_empty = sparse(4, 3);
text = "abc"; cells = {1, 2}; record.inner = A; cube = ones(2, 3, 2); range = 0:0.5:1;
save("-hdf5", argv(){end})
