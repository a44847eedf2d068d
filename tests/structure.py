"""The rooms of the source tree: which may include which, and that every level has its file.

    cli → lib → {formats, kernels} → lib/core

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

# Each room, and the rooms that it may include beside itself. lib/core is a room of its own.
ROOMS = {
    "lib/core": [],
    "kernels": ["lib/core"],
    "formats": ["lib/core"],
    "lib": ["lib/core", "kernels", "formats"],
    "cli": ["lib", "lib/core", "kernels", "formats"],
}


def room_of(path):
    rooms = [room for room in ROOMS if path.startswith(room + "/")]
    return max(rooms, key=len) if rooms else None


def sources():
    for room in ("lib", "kernels", "formats", "cli", "tests"):
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
        for path in sources():
            room = room_of(path)
            for mark, name in includes(path):
                target = room_of(name) if mark == '"' else None
                if room and target and target != room:
                    self.assertIn(target, ROOMS[room], f"{path} includes {name}")

    def test_quoted_includes_start_at_the_root(self):
        for path in sources():
            for mark, name in includes(path):
                if mark == '"':
                    self.assertTrue(os.path.exists(os.path.join(ROOT, name)), f"{path} includes {name}")

    def test_no_cuda_header_outside_kernels(self):
        for path in sources():
            if room_of(path) not in (None, "kernels"):
                found = [name for mark, name in includes(path) if mark == "<" and CUDA_HEADER.match(name)]
                self.assertEqual(found, [], path)

    def test_tests_are_included_by_tests_only(self):
        for path in sources():
            if room_of(path):
                self.assertEqual([name for _, name in includes(path) if name.startswith("tests/")], [], path)

    def test_nobody_asks_which_operation_it_has(self):
        """Outside of kernels/OPERATION, only the two lists of operations name one."""
        lists = {"kernels/registry.cpp", "lib/catalog.cpp"}
        names = next(os.walk(os.path.join(ROOT, "kernels")))[1]
        operations = [name for name in names if os.path.exists(os.path.join(ROOT, "kernels", name, "operation.hpp"))]
        self.assertGreater(len(operations), 1)
        either = "|".join(operations)
        rows = "|".join("k" + name.capitalize() for name in operations)
        asks = re.compile(rf'\b(?:{rows})\b|[=!]=\s*"(?:{either})"|"(?:{either})"\s*[=!]=|kernels/(?:{either})/')
        for path in sources():
            room = room_of(path)
            if room is None or path in lists or re.match(rf"kernels/(?:{either})/", path):
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
