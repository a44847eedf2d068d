"""docs/guide/compiled.py finds the inner loop of a kernel and counts what is in it. On a listing written for this test."""

import importlib.util
import json
import os
import re
import subprocess
import unittest

from harness import GPUMAT

GUIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "guide")
_spec = importlib.util.spec_from_file_location("compiled", os.path.join(GUIDE, "compiled.py"))
compiled = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(compiled)

# Two functions as `cuobjdump -sass` lists them: the words of machine code behind the instructions, labels and flags between them.
LISTING = """
Fatbin elf code:
================
arch = sm_90a
		Function : _ZN6gpumat8multiply3gpu1_GLOBAL__N_9rolledIfEEvNS1_9ArgumentsIT_EE
	.headerflags	@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;                 /* 0x00000a00ff017b82 */
                                                                          /* 0x000fe20000000800 */
        /*0010*/              @!P0 BRA 0x0030 ;
        /*0020*/                   LDG.E R4, desc[UR4][R2.64] ;
        /*0030*/                   LDS R5, [R3] ;
        /*0040*/                   LDS.128 R8, [R3+0x10] ;
        /*0050*/                   FFMA R0, R5, R8, R0 ;
        /*0060*/                   FFMA R1, R5, R9, R1 ;
        /*0070*/               @P1 IADD3 R3, R3, 0x4, RZ ;
        /*0080*/                   ISETP.NE.AND P0, PT, R3, 0x40, PT ;
        /*0090*/                   NOP;
        /*00a0*/               @P0 BRA 0x30 ;
        /*00b0*/                   STL [R1], R0 ;
        /*00c0*/              @!P2 BRA 0x20 ;
        /*00d0*/                   EXIT ;
        /*00e0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R4], R5 ;
        /*00f0*/                   BRA 0x50;
        /*0100*/                   BRA 0x100;
		Function : _ZN6gpumat9transpose3gpu1_GLOBAL__N_13moved_kernelIjEEvPKT_PS3_
        /*0000*/                   LDG.E.64 R4, desc[UR4][R2.64] ;
        /*0010*/                   STS.64 [R6], R4 ;
        /*0020*/               @P0 BRA 0x0 ;
        /*0030*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0040*/                   LDS.64 R4, [R6] ;
        /*0050*/                   STG.E.64 desc[UR4][R2.64], R4 ;
        /*0060*/                   IADD3 R2, R2, 0x8, RZ ;
        /*0070*/               @P0 BRA 0x40 ;
        /*0080*/                   EXIT ;
"""


class Compiled(unittest.TestCase):
    def setUp(self):
        self.functions = compiled.parse(LISTING)
        self.rolled, self.moved = self.functions.values()

    def test_instructions(self):
        self.assertEqual([one.opcode for one in self.moved], ["LDG", "STS", "BRA", "BAR", "LDS", "STG", "IADD3", "BRA", "EXIT"])
        self.assertEqual([one.size_bytes for one in self.rolled if one.opcode == "LDS"], [4, 16])
        self.assertEqual(len(self.rolled), 16)  # without NOP, and without the words of machine code

    def test_the_inner_loop_is_the_one_without_another(self):
        """Neither the loop around it nor the unconditional jump back from behind the end."""
        (loop,) = compiled.innermost_loops(self.rolled)
        self.assertEqual((loop[0].address, loop[-1].address), (0x30, 0xA0))

    def test_mix_of_a_multiply(self):
        mix = compiled.multiply_mix(self.rolled)
        self.assertEqual(mix.units, 2)
        self.assertEqual(mix.counts, {"shared": 2, "multiply-add": 2, "integer": 2, "control": 1})

    def test_mix_of_a_transpose_is_of_both_loops(self):
        mix = compiled.transpose_mix(self.moved)
        self.assertEqual(mix.units, 2)  # elements of 4 bytes
        self.assertEqual(mix.counts, {"global": 2, "shared": 2, "integer": 1, "control": 2})

    def test_mix_of_a_transpose_without_loops_is_of_the_kernel(self):
        straight = [one._replace(target=None) for one in self.moved]
        mix = compiled.transpose_mix(straight)
        self.assertEqual((mix.units, mix.counts.total()), (2, 9))

    def test_mix_of_a_reduction(self):
        """A loop without global loads takes one number a turn, others as many as they load."""
        lines = ["Function : f", "/*0000*/ LDS R1, [R2] ;", "/*0010*/ DADD R2, R2, R4 ;", "/*0020*/ @P0 BRA 0x0 ;"]
        tree = compiled.parse("\n".join(lines))["f"]
        self.assertEqual(compiled.reduce_mix(tree).units, 1)
        self.assertEqual(compiled.reduce_mix([compiled.Instruction(0, "LDG", None, 16), *tree]).units, 4)

    def test_row(self):
        row = compiled.row_of("multiply", "rolled", compiled.Usage(42, 1088), self.rolled)
        self.assertEqual(row, ["`rolled`", "42", "1", "1088", "16", "2", "1.00", "0.00", "1.00", "0.50", "29 %"])

    def test_kernels_are_found_by_level(self):
        self.assertEqual(self.functions[compiled.kernel_of("multiply", "rolled", self.functions)], self.rolled)
        self.assertEqual(self.functions[compiled.kernel_of("transpose", "moved", self.functions)], self.moved)
        with self.assertRaises(SystemExit):
            compiled.kernel_of("multiply", "moved", self.functions)

    def test_exceptions_are_of_levels_that_there_are(self):
        for operation, row in compiled.OPERATIONS.items():
            listed = subprocess.run([GPUMAT, "levels", operation, "-d", "gpu", "--json"], stdout=subprocess.PIPE, check=True)
            names = {level["name"] for level in json.loads(listed.stdout)["levels"] if level["role"] == "rung"}
            self.assertLessEqual(set(row.kernels) | row.sized_at_launch | row.left_out, names)


class Tables(unittest.TestCase):
    def test_each_page_has_the_one_of_its_operation(self):
        for operation in compiled.OPERATIONS:
            with open(os.path.join(GUIDE, f"{operation}.md"), encoding="utf-8") as file:
                page = file.read()
            made_by = rf"^{operation}, sm_90a, nvcc V[\d.]+, built \d{{4}}-\d\d-\d\d"
            self.assertTrue(re.search(made_by, page, re.MULTILINE), operation)
            rows = re.findall(r"^\| `([\w-]+)` \| \d+ \| \d+ \|", page, re.MULTILINE)
            rungs = re.findall(r"^### `([\w-]+)`$", page, re.MULTILINE)
            self.assertEqual(rows, [rung for rung in rungs if rung not in compiled.OPERATIONS[operation].left_out])


if __name__ == "__main__":
    unittest.main()
