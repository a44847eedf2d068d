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

# The rooms, and those that each may use beside itself.
UNDER = {
    "core": [],
    "formats": ["core"],
    "kernels": ["core"],
    "lib": ["core", "formats", "kernels"],
    "cli": ["core", "formats", "kernels", "lib"],
}
# Each folder, and those of its own room that it may use. Folders without a row belong to the one above them. A row that
# is no folder is a source that gathers what lies beside it. DESIGN.md shows this table.
FOLDERS = {
    "core": [],
    "core/numbers": ["core"],
    "core/sparse": ["core", "core/numbers"],
    "core/hash": ["core", "core/numbers", "core/sparse"],
    "core/text": ["core"],
    "formats": [],
    "formats/matrix_market/numbers": ["formats"],
    "formats/matrix_market": ["formats", "formats/matrix_market/numbers"],
    "formats/hdf5": ["formats"],
    "formats/hdf5/file": ["formats"],
    "formats/hdf5/sandbox": ["formats/hdf5/file"],
    "formats/hdf5/read": ["formats", "formats/hdf5", "formats/hdf5/file", "formats/hdf5/sandbox"],
    "formats/hdf5/write": ["formats", "formats/hdf5", "formats/hdf5/file", "formats/hdf5/sandbox", "formats/hdf5/read"],
    "formats/npy": ["formats"],
    "formats/npz": ["formats", "formats/npy"],
    "formats/registry": ["formats", "formats/hdf5", "formats/matrix_market", "formats/npy", "formats/npz"],
    "formats/container": ["formats", "formats/registry"],
    "kernels": ["kernels/device"],
    "kernels/device": [],
    "kernels/common": ["kernels", "kernels/device"],
    "kernels/check": ["kernels"],
    "kernels/transpose": ["kernels", "kernels/device", "kernels/common", "kernels/check"],
    "kernels/multiply": ["kernels", "kernels/device", "kernels/common", "kernels/check", "kernels/transpose"],
    "kernels/reduce": ["kernels", "kernels/device", "kernels/common", "kernels/check"],
    "kernels/probe": ["kernels", "kernels/device", "kernels/common"],
    "kernels/registry": ["kernels", "kernels/transpose", "kernels/multiply", "kernels/reduce"],
    "lib/output": [],
    "lib/record": ["lib/output"],
    "lib/charts": [],
    "lib/choose": ["lib/output", "lib/record"],
    "lib/stored": ["lib/record"],
    "lib/engines": ["lib/record", "lib/stored"],
    "lib/run": ["lib/output", "lib/record", "lib/choose", "lib/stored", "lib/engines"],
    "lib/matrices": ["lib/output", "lib/record", "lib/stored", "lib/engines"],
    "lib/measure": ["lib/output", "lib/record", "lib/charts", "lib/choose", "lib/run", "lib/matrices"],
    "lib/report": ["lib/output", "lib/record", "lib/charts", "lib/run", "lib/measure"],
    "lib/batch": ["lib/output", "lib/record", "lib/stored"],
    "cli/terminal": [],
    "cli/options": ["cli/terminal"],
    "cli/batch": ["cli/terminal", "cli/options"],
    "cli/commands": ["cli/terminal", "cli/options", "cli/batch"],
    "cli": ["cli/terminal", "cli/options", "cli/batch", "cli/commands"],
}
# What no other room may use: how a format is read, and what belongs to one operation.
HIDDEN = re.compile(r"formats/(hdf5|matrix_market|npy|npz|container)|kernels/(transpose|multiply|reduce)")


def may_use(folder):
    """The folders that one may use beside itself."""
    under = UNDER[folder.split("/")[0]]
    return {other for other in FOLDERS if other.split("/")[0] in under and not HIDDEN.match(other)} | set(FOLDERS[folder])


def room_of(path):
    rooms = [room for room in FOLDERS if path.startswith((room + "/", room + "."))]
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
        self.assertEqual({room_of(path) for path in sources()} - {None}, set(FOLDERS))

    def test_rooms_include_only_rooms_below(self):
        wrong = []
        for path in sources():
            room = room_of(path)
            for mark, name in includes(path):
                target = room_of(name) if mark == '"' else None
                if room and target and target != room and target not in may_use(room):
                    wrong.append(f"{path} includes {name}")
        self.assertEqual(wrong, [])

    def test_design_shows_the_table(self):
        with open(os.path.join(ROOT, "DESIGN.md"), encoding="utf-8") as file:
            text = file.read()
        for folder, others in FOLDERS.items():
            self.assertIn(f"| `{folder}` | {', '.join(f'`{other}`' for other in others) or 'none'} |", text)

    def test_quoted_includes_are_headers_and_start_at_the_root(self):
        for path in sources():
            for mark, name in includes(path):
                if mark == '"':
                    there = name.endswith((".hpp", ".cuh")) and os.path.exists(os.path.join(ROOT, name))
                    self.assertTrue(there, f"{path} includes {name}")

    def test_no_cuda_header_outside_kernels(self):
        for path in sources():
            if room_of(path) and not path.startswith("kernels/"):
                found = [name for mark, name in includes(path) if mark == "<" and CUDA_HEADER.match(name)]
                self.assertEqual(found, [], path)

    def test_one_folder_includes_mpi(self):
        found = {os.path.dirname(path) for path in sources() if room_of(path) for _, name in includes(path) if name.startswith("mpi")}
        self.assertEqual(found, {"lib/engines/mpi"})

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
