#!/usr/bin/env python3
"""What the compiler made of each GPU rung: registers, spills, shared memory, and the instructions of its inner loop.

Usage: docs/guide/compiled.py BINARY [--arch sm_90a] [OPERATION…]

Reads a built gpumat with `cuobjdump` and `nvdisasm` of the CUDA toolkit and prints a Markdown table for each operation:
those of the guide. No GPU is needed. Kernels are those that run by default on f32 matrices of 4096×4096.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, namedtuple

Instruction = namedtuple("Instruction", "address opcode target size_bytes")  # target: of a conditional branch
Usage = namedtuple("Usage", "registers shared_bytes")
Mix = namedtuple("Mix", "units counts")  # instructions by class, and the units of work that they do

SYSTEM_SHARED_BYTES = 1024  # that the system takes of every block, from the next on
SYSTEM_SHARED_SINCE = 90
ELEMENT_BYTES = 4           # f32

# ---------------------------------------------------------------------------------------------- instructions

CLASSES = {
    "multiply-add": "FFMA",
    "addition": "DADD",
    "conversion": "F2F",
    "shared": "LDS|STS|LDSM|STSM|ATOMS",
    "global": "LDG|STG|LDGSTS|LD|ST|RED|ATOMG|CCTL|UTMALDG|UTMASTG|UBLKCP",
    "spill": "LDL|STL",
    "control": "BRA|BRX|JMP|CALL|RET|EXIT|BSSY|BSYNC|BREAK|BAR|WARPSYNC|SYNCS|YIELD|ELECT|DEPBAR|LDGDEPBAR|MEMBAR"
               "|ENDCOLLECTIVE",
}
CLASS_OF = {opcode: name for name, opcodes in CLASSES.items() for opcode in opcodes.split("|")}

FUNCTION = re.compile(r"^\s*Function : (\S+)")
LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(@!?\w+)?\s*([A-Z]\w*)((?:\.\w+)*)\s*(.*?)\s*;")
TARGET = re.compile(r"\b0x([0-9a-f]+)$")


def class_of(instruction):
    """Integers, addresses, moves and predicates are what is left."""
    return CLASS_OF.get(instruction.opcode, "integer")


def parse(text):
    """The instructions of each function in the output of `cuobjdump -sass`."""
    functions, current = {}, None
    for line in text.splitlines():
        if found := FUNCTION.match(line):
            current = functions.setdefault(found[1], [])
        elif (found := LINE.match(line)) and current is not None and found[3] != "NOP":
            address, condition, opcode, suffixes, operands = found.groups()
            target = TARGET.search(operands) if opcode == "BRA" and condition else None
            bits = re.search(r"\.(64|128)\b", suffixes)
            current.append(Instruction(int(address, 16), opcode, int(target[1], 16) if target else None,
                                       int(bits[1]) // 8 if bits else 4))
    return functions


def innermost_loops(instructions):
    """The bodies of conditional branches backward that have no other such branch in them.

    Unconditional ones come back from code that the compiler has put behind the rest.
    """
    spans = [(one.target, one.address) for one in instructions if one.target is not None and one.target < one.address]
    inner = [span for span in spans
             if not any(other != span and span[0] <= other[0] and other[1] <= span[1] for other in spans)]
    return [[one for one in instructions if first <= one.address <= last] for first, last in inner]


def count(instructions, *opcodes):
    return sum(one.opcode in opcodes for one in instructions)


def elements(instructions, opcode):
    """That a thread moves by the accesses of this opcode."""
    return sum(one.size_bytes for one in instructions if one.opcode == opcode) // ELEMENT_BYTES


def busiest(loops, opcode):
    """The loop with the most of an opcode; None where no loop has it."""
    loop = max(loops, key=lambda body: count(body, opcode), default=[])
    return loop if count(loop, opcode) else None


def mix_of(body, units):
    return Mix(units, Counter(class_of(one) for one in body))


# ---------------------------------------------------------------------------------------------- operations


def multiply_mix(instructions):
    loop = busiest(innermost_loops(instructions), "FFMA")
    return mix_of(loop, count(loop, "FFMA"))


def reduce_mix(instructions):
    """A tree's loop takes one number a turn; one that reads memory takes as many as it reads."""
    loop = busiest(innermost_loops(instructions), "DADD")
    return mix_of(loop, elements(loop, "LDG") or 1)


def transpose_mix(instructions):
    """Of an element: of the loop that loads it and the loop that stores it, or of the whole kernel where no loop does."""
    loops = innermost_loops(instructions)
    load, store = busiest(loops, "LDG"), busiest(loops, "STG")
    if load is None or store is None:
        return mix_of(instructions, elements(instructions, "STG"))
    if load is store:
        return mix_of(load, elements(load, "STG"))
    assert elements(load, "LDG") == elements(store, "STG"), "loops of different length"
    return mix_of(load + store, elements(store, "STG"))


Operation = namedtuple("Operation", "element unit mix columns kernels sized_at_launch left_out")

# `kernels`: where the default kernel of a level is not the one of its name that has the element type alone.
# `sized_at_launch`: levels whose launch gives a block more shared memory than the kernel says. `left_out`: levels that do not
# take f32 as it is.
OPERATIONS = {
    "transpose": Operation("j", "element", transpose_mix, ["global", "shared", "integer", "control"], {
        "tiled": r"\dtiled_kernelIjLi32EE",
        "padded": r"\dpadded_kernelIjLi32EE",
        "vectorized": r"vectorized_kernelIjNS1_8WordPlanILi8ELi32ELi32ELi512E.*CacheE2E.*PlacesE2E",
        "tma": r"tma_kernelIjNS1_7TmaPlan",
    }, {"tiled", "padded", "vectorized", "tma"}, set()),
    "multiply": Operation("f", "multiply-add", multiply_mix, ["shared", "global", "integer", "control"], {
        "tiled": r"\dtiledIfLi32EE",
        "pipelined": r"\dpackedIfNS1_8TileTypeIJLi256ELi96E",
    }, {"pipelined"}, {"tensor", "wgmma"}),
    "reduce": Operation("f", "number", reduce_mix, ["addition", "conversion", "global", "shared", "integer", "control"], {
        "interleaved": r"interleaved_kernel.*ReductionE0EfEEfEE",
        "sequential": r"sequential_kernel.*ReductionE0EfEEfEE",
        "shuffle": r"long_rows_kernel.*ReductionE0EfEEfEE",
    }, set(), set()),
}


def kernel_of(operation, level, names):
    """The mangled name of a level's default kernel."""
    row = OPERATIONS[operation]
    usual = rf"\d{level.replace('-', '_')}(_kernel)?I{row.element}EE"
    pattern = re.compile(rf"gpumat\d+{operation}3gpu.*{row.kernels.get(level, usual)}")
    found = [name for name in names if pattern.search(name)]
    if len(found) != 1:
        sys.exit(f"{operation} {level}: {len(found)} kernels match {pattern.pattern}, not 1; mend OPERATIONS in {__file__}")
    return found[0]


# ---------------------------------------------------------------------------------------------- the binary


class Binary:
    """A built gpumat, and what `cuobjdump` says of its code for one architecture."""

    def __init__(self, path, arch):
        for tool in ("cuobjdump", "nvdisasm"):
            if not shutil.which(tool):
                sys.exit(f"{tool} is not in the PATH; it comes with the CUDA toolkit")
        self.path, self.arch = os.path.abspath(path), arch
        listed = re.findall(r"ELF file +\d+: (\S+)", self.cuobjdump("-lelf"))
        self.cubins = [name for name in listed if f".{arch}." in name]
        if not self.cubins:
            there = sorted({found[1] for name in listed if (found := re.search(r"\.(sm_\w+)\.", name))})
            sys.exit(f"{path} has no code for {arch}; it has {', '.join(there) or 'none for a GPU'}")

    def cuobjdump(self, *words, folder=None):
        """What it prints. It warns of every function that is not in every object file."""
        done = subprocess.run(["cuobjdump", *words, self.path], capture_output=True, check=False, text=True, cwd=folder)
        if done.returncode != 0:
            sys.exit(f"cuobjdump {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def levels(self, operation):
        """The names of the GPU rungs that take f32."""
        words = [self.path, "levels", operation, "-d", "gpu", "--json"]
        listed = subprocess.run(words, stdout=subprocess.PIPE, check=True)
        names = [level["name"] for level in json.loads(listed.stdout)["levels"] if level["role"] == "rung"]
        return [name for name in names if name not in OPERATIONS[operation].left_out]

    def usages(self):
        """Of every kernel, by its mangled name."""
        listed = self.cuobjdump("-arch", self.arch, "-res-usage")
        found = re.findall(r"Function (\S+):\s+REG:(\d+) .*?SHARED:(\d+)", listed)
        system = SYSTEM_SHARED_BYTES if int(re.search(r"\d+", self.arch)[0]) >= SYSTEM_SHARED_SINCE else 0
        return {name: Usage(int(registers), max(0, int(shared) - system)) for name, registers, shared in found}

    def code(self, names):
        return parse(self.cuobjdump("-arch", self.arch, "-sass", "-fun", ",".join(names)))

    def compiler(self):
        """The compiler that made the code, which every cubin names."""
        with tempfile.TemporaryDirectory() as folder:
            self.cuobjdump("-xelf", self.cubins[0], folder=folder)
            with open(os.path.join(folder, os.listdir(folder)[0]), "rb") as file:
                return re.search(rb"Cuda compilation tools, release [\d.]+, (V[\d.]+)", file.read())[1].decode()


def row_of(operation, level, usage, instructions):
    kind = OPERATIONS[operation]
    mix = kind.mix(instructions)
    spills = count(instructions, "LDL", "STL")
    more = " + launch" if level in kind.sized_at_launch else ""
    row = [f"`{level}`", usage.registers, spills, f"{usage.shared_bytes}{more}", len(instructions), mix.units]
    row += [f"{mix.counts[name] / mix.units:.2f}" for name in kind.columns]
    if operation == "multiply":
        row.append(f"{100 * mix.units / mix.counts.total():.0f} %")
    return [str(cell) for cell in row]


def table_of(operation, binary, usages):
    kind = OPERATIONS[operation]
    kernels = {level: kernel_of(operation, level, usages) for level in binary.levels(operation)}
    code = binary.code(kernels.values())
    header = ["level", "registers", "spills", "shared bytes", "instructions", f"{kind.unit}s a turn", *kind.columns,
              *(["multiply-adds of all"] if operation == "multiply" else [])]
    rows = [row_of(operation, level, usages[kernel], code[kernel]) for level, kernel in kernels.items()]
    lines = ["| " + " | ".join(cells) + " |" for cells in [header, ["---"] + ["--:"] * (len(header) - 1), *rows]]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="what the compiler made of each GPU rung, as Markdown tables")
    parser.add_argument("binary", help="a gpumat built with CUDA")
    parser.add_argument("operations", nargs="*", metavar="OPERATION", help=f"{', '.join(OPERATIONS)}; all where left out")
    parser.add_argument("--arch", default="sm_90a", help="the architecture whose code is read (default %(default)s)")
    request = parser.parse_args()
    if unknown := set(request.operations) - set(OPERATIONS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; expected {', '.join(OPERATIONS)}")
    if not os.path.isfile(request.binary):
        parser.error(f"{request.binary} is not a file")
    binary = Binary(request.binary, request.arch)
    usages = binary.usages()
    built = datetime.date.fromtimestamp(os.path.getmtime(request.binary))
    for operation in request.operations or OPERATIONS:
        print(f"{operation}, {request.arch}, nvcc {binary.compiler()}, built {built}; f32, a loop's instructions "
              f"for each {OPERATIONS[operation].unit}\n\n{table_of(operation, binary, usages)}\n")


if __name__ == "__main__":
    main()
