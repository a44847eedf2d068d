"""The rooms of the source tree: which folder may include which, and that every level has its file.

    cli → lib → {formats, kernels} → core

Formats and kernels never see each other, and no CUDA header is included outside kernels/.
"""

import json
import os
import re
import subprocess
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CUDA_HEADER = re.compile(r"^(cuda|cublas|cooperative_groups|cute/|cutlass|cub/|thrust/|mma\.h|nv)")

CORE = ["core", "core/numbers", "core/hash", "core/text"]
KERNELS = ["kernels", "kernels/registry", "kernels/common", "kernels/check"]
HDF5 = ["formats/hdf5", "formats/hdf5/file", "formats/hdf5/sandbox", "formats/hdf5/read"]

# Each folder, and those that it may include beside itself. The folders of a level or of a format that are not named
# belong to the folder above them. A row that is no folder is a source that gathers what lies beside it.
ROOMS = {
    "core": [],
    "core/numbers": ["core"],
    "core/hash": ["core", "core/numbers"],
    "core/text": ["core"],

    "formats": CORE,
    "formats/matrix_market/numbers": [*CORE],
    "formats/matrix_market": [*CORE, "formats", "formats/matrix_market/numbers"],
    "formats/hdf5": ["formats"],
    "formats/hdf5/file": [*CORE, "formats"],
    "formats/hdf5/sandbox": [*CORE, "formats/hdf5/file"],
    "formats/hdf5/read": [*CORE, "formats", *HDF5],
    "formats/hdf5/write": [*CORE, "formats", *HDF5],
    "formats/registry": [*CORE, "formats", "formats/hdf5", "formats/matrix_market"],
    "formats/container": [*CORE, "formats", "formats/registry"],

    "kernels/device": CORE,
    "kernels": [*CORE, "kernels/device"],
    "kernels/common": [*CORE, "kernels", "kernels/device"],
    "kernels/check": [*CORE, "kernels"],
    "kernels/transpose": [*CORE, "kernels", "kernels/device", "kernels/common", "kernels/check"],
    "kernels/multiply": [*CORE, "kernels", "kernels/device", "kernels/common", "kernels/check"],
    "kernels/reduce": [*CORE, "kernels", "kernels/device", "kernels/common", "kernels/check"],
    "kernels/probe": [*CORE, "kernels", "kernels/device", "kernels/common"],
    "kernels/registry": [*CORE, "kernels", "kernels/transpose", "kernels/multiply", "kernels/reduce"],
}
BELOW = [*CORE, *KERNELS, "kernels/device", "kernels/probe", "formats", "formats/registry"]
# In lib/ and cli/, a folder may include what is below them, and these of its own room.
LIB = {
    "output": [],
    "record": ["output"],
    "charts": [],
    "choose": ["output", "record"],
    "stored": ["record"],
    "run": ["output", "record", "choose", "stored"],
    "matrices": ["output", "record", "stored"],
    "measure": ["output", "record", "charts", "choose", "run"],
    "report": ["output", "record", "charts", "run", "measure"],
    "batch": ["output", "record"],
}
CLI = {
    "terminal": [],
    "options": ["terminal"],
    "batch": ["terminal", "options"],
    "commands": ["terminal", "options", "batch"],
}
ROOMS |= {f"lib/{room}": [*BELOW, *(f"lib/{other}" for other in others)] for room, others in LIB.items()}
BELOW += [f"lib/{room}" for room in LIB]
ROOMS |= {f"cli/{room}": [*BELOW, *(f"cli/{other}" for other in others)] for room, others in CLI.items()}
ROOMS["cli"] = [*BELOW, *(f"cli/{room}" for room in CLI)]


def room_of(path):
    rooms = [room for room in ROOMS if path.startswith((room + "/", room + "."))]
    return max(rooms, key=len) if rooms else None


def sources():
    for room in ("core", "lib", "kernels", "formats", "cli", "tests"):
        for folder, _, names in os.walk(os.path.join(ROOT, room)):
            for name in names:
                if name.endswith((".cpp", ".hpp", ".cu", ".cuh")):
                    yield os.path.relpath(os.path.join(folder, name), ROOT)


def includes(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return INCLUDE.findall(file.read())


class Structure(unittest.TestCase):
    def test_there_are_sources(self):
        self.assertEqual({room_of(path) for path in sources()} - {None}, set(ROOMS))

    def test_rooms_include_only_rooms_below(self):
        wrong = []
        for path in sources():
            room = room_of(path)
            for mark, name in includes(path):
                target = room_of(name) if mark == '"' else None
                if room and target and target != room and target not in ROOMS[room]:
                    wrong.append(f"{path} includes {name}")
        self.assertEqual(wrong, [])

    def test_quoted_includes_start_at_the_root(self):
        for path in sources():
            for mark, name in includes(path):
                if mark == '"':
                    self.assertTrue(os.path.exists(os.path.join(ROOT, name)), f"{path} includes {name}")

    def test_no_cuda_header_outside_kernels(self):
        for path in sources():
            if room_of(path) and not path.startswith("kernels/"):
                found = [name for mark, name in includes(path) if mark == "<" and CUDA_HEADER.match(name)]
                self.assertEqual(found, [], path)

    def test_few_sources_include_what_takes_long_to_compile(self):
        found = {path for path in sources() if room_of(path) for _, name in includes(path) if name.startswith("CLI/")}
        self.assertEqual(found, {"cli/options/parser.cpp", "cli/options/config_file.cpp"})

    def test_tests_are_included_by_tests_only(self):
        for path in sources():
            if room_of(path):
                self.assertEqual([name for _, name in includes(path) if name.startswith("tests/")], [], path)

    def test_nobody_asks_which_operation_it_has(self):
        """Outside of kernels/OPERATION, only the list of operations names one."""
        names = next(os.walk(os.path.join(ROOT, "kernels")))[1]
        operations = [name for name in names if os.path.exists(os.path.join(ROOT, "kernels", name, "operation.hpp"))]
        self.assertGreater(len(operations), 1)
        either = "|".join(operations)
        rows = "|".join("k" + name.capitalize() for name in operations)
        asks = re.compile(rf'\b(?:{rows})\b|[=!]=\s*"(?:{either})"|"(?:{either})"\s*[=!]=|kernels/(?:{either})/')
        for path in sources():
            room = room_of(path)
            if room is None or path == "kernels/registry.cpp" or re.match(rf"kernels/(?:{either})/", path):
                continue
            with open(os.path.join(ROOT, path), encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    self.assertIsNone(asks.search(line), f"{path}:{number}: {line.strip()}")

    def test_each_level_has_a_file(self):
        """kernels/OPERATION/DEVICE/LEVEL.cpp or .cu, dashes as underscores."""
        tool = os.environ.get("GPUMAT")
        if not tool:
            self.skipTest("GPUMAT does not name the built tool")
        listed = subprocess.run([tool, "levels", "--json"], stdout=subprocess.PIPE, check=True, text=True).stdout
        rows = [[level[key] for key in ("op", "device", "name")] for level in json.loads(listed)["levels"]]
        self.assertGreater(len(rows), 10)
        for operation, device, level in rows:
            stem = os.path.join(ROOT, "kernels", operation, device, level.replace("-", "_"))
            self.assertTrue(any(os.path.exists(stem + ending) for ending in (".cpp", ".cu")), f"no {stem}.cpp or .cu")


if __name__ == "__main__":
    unittest.main()
