"""What happens to files: outputs that exist or equal an input, full disks, closed pipes, signals.

Nothing may be left half written: after a failure the folder is as it was before the run.
"""

import collections
import contextlib
import fcntl
import glob
import gzip
import itertools
import json
import math
import os
import re
import shutil
import signal
import struct
import subprocess
import time
import unittest

import h5py
import numpy as np
import scipy.io

from harness import (SLOW_ONES, Case, child_setup, digest, open_for_writing, random_values, read_h5, read_mtx,
                     snapshot, some, wait_for, write_h5, write_mtx)

# The owner rw-, user 12345 rw-, the group r--, their mask rw-, others ---; as the system stores it.
ACCESS_LIST = [(1, 6, 2**32 - 1), (2, 6, 12345), (4, 4, 2**32 - 1), (16, 6, 2**32 - 1), (32, 0, 2**32 - 1)]


def stored_list(entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


WITHOUT_ROOTS_POWERS = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


class OutputCase(Case):
    def setUp(self):
        super().setUp()
        self.matrix = random_values("f64", (40, 30))
        write_h5(self.path("a.h5"), self.matrix)
        write_mtx(self.path("a.mtx"), self.matrix)

    def write_old(self, name="out.h5"):
        with open(self.path(name), "w", encoding="ascii") as file:
            file.write("the old content\n")

    def check_refused(self, code, words, *arguments, **options):
        """The run fails with that code and these words, and the folder stays as it is."""
        before = snapshot(self.folder)
        result = self.run_tool(*arguments, code=code, **options)
        self.assert_says(result, *words)
        self.assertEqual(snapshot(self.folder), before)
        return result


class Existing(OutputCase):
    def test_is_refused(self):
        for output in ("out.h5", "out.mtx"):
            self.write_old(output)
            self.check_refused(4, [output, "exists", "--force"], "transpose", "a.h5", "-o", output)

    def test_is_replaced_with_force(self):
        self.write_old("out.h5")
        self.write_old("out.mtx")
        for output, read in (("out.h5", lambda path: read_h5(path)[1]), ("out.mtx", read_mtx)):
            self.run_tool("transpose", "a.h5", "-o", output, "--force")
            self.assert_same_bits(read(self.path(output)), self.matrix.T.copy())
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.h5", "a.mtx", "out.h5", "out.mtx"])

    def test_keeps_its_mode(self):
        """A file that is replaced keeps its permissions; a new one gets those of the umask."""
        self.write_old()
        os.chmod(self.path("out.h5"), 0o640)
        self.run_tool("transpose", "a.h5", "-o", "out.h5", "--force")
        self.run_tool("transpose", "a.h5", "-o", "new.h5")
        modes = [os.stat(self.path(name)).st_mode & 0o777 for name in ("out.h5", "new.h5")]
        umask = os.umask(0)
        os.umask(umask)
        self.assertEqual([oct(mode) for mode in modes], [oct(0o640), oct(0o666 & ~umask)])

    def test_keeps_its_owner_list_and_attributes(self):
        self.write_old()
        path = self.path("out.h5")
        os.chmod(path, 0o640)
        try:
            os.setxattr(path, "user.note", b"kept")
            acl = stored_list(ACCESS_LIST)
            os.setxattr(path, "system.posix_acl_access", acl)
        except OSError as error:
            self.skipTest(f"the file system keeps no lists: {error}")
        others = set()
        for name in ("trusted.note", "security.note"):  # root's
            with contextlib.suppress(OSError):
                os.setxattr(path, name, b"kept")
                others.add(name)
        if os.geteuid() == 0:
            os.chown(path, 4321, 4321)
        owner = os.stat(path).st_uid
        for storage in ([], ["--deflate", "1"]):
            self.run_tool("transpose", "a.h5", "-o", "out.h5", "--force", *storage)
            for name in {"user.note"} | others:
                self.assertEqual(os.getxattr(path, name), b"kept")
            self.assertEqual(os.getxattr(path, "system.posix_acl_access"), acl)
            self.assertEqual(oct(os.stat(path).st_mode & 0o777), oct(0o660))
            self.assertEqual(os.stat(path).st_uid, owner)

    def test_says_beforehand_whose_file_it_will_be(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give a file away")
        self.write_old()
        os.chown(self.path("out.h5"), 4321, 4321)
        os.chmod(self.path("out.h5"), 0o660)
        before = ["setpriv", "--bounding-set=-chown"]
        dry = self.run_tool("transpose", "a.h5", "-o", "out.h5", "--force", "--dry-run", before=before)
        result = self.run_tool("transpose", "a.h5", "-o", "out.h5", "--force", before=before)
        for said in (dry, result):
            self.assert_says(said, "out.h5: its owner 4321:4321 cannot be kept")
        self.assertLess(result.err.index("owner"), result.err.index("verification"))
        status = os.stat(self.path("out.h5"))
        self.assertEqual((status.st_uid, oct(status.st_mode & 0o777)), (0, oct(0o600)))

    def test_the_bits_that_writing_takes_away_are_kept(self):
        user = ["setpriv", "--bounding-set=-fsetid"] if os.geteuid() == 0 else []
        for name, options in (("out.h5", []), ("out.mtx", []), ("more.h5:/new", [])):
            path = self.path(name.partition(":")[0])
            write_h5(path, self.matrix)
            os.chmod(path, 0o6755)
            self.run_tool("transpose", "a.h5", "-o", name, "--force", *options, before=user)
            self.assertEqual(oct(os.stat(path).st_mode & 0o7777), oct(0o6755))

    def test_whom_its_list_names_keep_their_permissions_where_its_group_does_not(self):
        if os.geteuid() != 0:
            self.skipTest("only root can give a file away")
        path = self.path("out.h5")
        self.write_old()
        try:
            os.setxattr(path, "system.posix_acl_access", stored_list(ACCESS_LIST))
        except OSError as error:
            self.skipTest(f"the file system keeps no lists: {error}")
        os.chown(path, 4321, 4321)
        result = self.run_tool("transpose", "a.h5", "-o", "out.h5", "--force", before=["setpriv", "--bounding-set=-chown"])
        self.assert_says(result, "out.h5: its owner 4321:4321 cannot be kept")
        narrowed = [(tag, 0 if tag == 4 else permissions, number) for tag, permissions, number in ACCESS_LIST]
        self.assertEqual(os.getxattr(path, "system.posix_acl_access"), stored_list(narrowed))
        self.assertEqual(oct(os.stat(path).st_mode & 0o777), oct(0o660))

    def test_says_which_attribute_is_not_kept(self):
        self.write_old()
        try:
            os.setxattr(self.path("out.h5"), "security.note", b"root's")
        except OSError as error:
            self.skipTest(f"no such attribute can be given: {error}")
        result = self.run_tool("transpose", "a.h5", "-o", "out.h5", "--force",
                               before=["setpriv", "--bounding-set=-sys_admin"])
        self.assert_says(result, "out.h5: its attribute security.note cannot be kept: Operation not permitted")

    def test_that_cannot_be_read_to_add_to(self):
        write_h5(self.path("closed.h5"), self.matrix)
        os.chmod(self.path("closed.h5"), 0o200)
        before = WITHOUT_ROOTS_POWERS if os.geteuid() == 0 else []
        for dry in ([], ["--dry-run"]):
            result = self.run_tool("transpose", "a.h5", "-o", "closed.h5:/new", *dry, code=4, before=before)
            self.assert_says(result, "closed.h5", "Permission denied")

    def test_link_stays_a_link(self):
        self.write_old("target.h5")
        os.symlink("target.h5", self.path("out.h5"))
        self.check_refused(4, ["exists"], "transpose", "a.h5", "-o", "out.h5")
        self.run_tool("transpose", "a.h5", "-o", "out.h5", "--force")
        self.assertEqual(os.readlink(self.path("out.h5")), "target.h5")
        self.assert_same_bits(read_h5(self.path("target.h5"))[1], self.matrix.T.copy())

    def test_directory(self):
        os.mkdir(self.path("out.h5"))
        self.check_refused(4, ["out.h5", "directory"], "multiply", "a.h5", "a.h5", "--transpose-b", "-o", "out.h5", "--force")

    def test_missing_folder(self):
        self.check_refused(4, ["nowhere", "No such file"], "transpose", "a.h5", "-o", "nowhere/out.h5")

    def test_is_refused_before_any_work(self):
        """Nothing is read or computed for an output that cannot be written."""
        self.write_old()
        with open(self.path("endless.mtx"), "w", encoding="ascii") as file:
            file.write("%%MatrixMarket matrix array real general\n2 2\n1\n")  # truncated: an error if it were read
        self.check_refused(4, ["exists"], "transpose", "endless.mtx", "-o", "out.h5")


class Extended(OutputCase):
    """A named dataset is added to an HDF5 file that exists; what the file held stays."""

    def setUp(self):
        super().setUp()
        write_h5(self.path("out.h5"), self.matrix, dataset="old")

    def test_other_datasets_stay(self):
        for name in ("new", "group/new"):
            self.run_tool("transpose", "a.h5", "-o", f"out.h5:/{name}")
            self.assert_same_bits(read_h5(self.path("out.h5"), name)[1], self.matrix.T.copy())
        self.assert_same_bits(read_h5(self.path("out.h5"), "old")[1], self.matrix)
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.h5", "a.mtx", "out.h5"])

    def test_other_spellings_of_a_dataset(self):
        """They name what they name for inputs."""
        spellings = ("group/{}/", "/group//{}//", "//group/{}", "/./group/./{}/.", "group/{}/./")
        for number, spelling in enumerate(spellings):
            for file in ("new.h5", "out.h5"):
                dataset = f"{file}:/{spelling.format(number)}"
                self.run_tool("transpose", "a.h5", "-o", dataset)
                with h5py.File(self.path(file), "r") as found:
                    self.assertEqual(sorted(found["group"]), [str(i) for i in range(number + 1)])
                self.assert_same_bits(read_h5(self.path(file), f"group/{number}")[1], self.matrix.T.copy())
                self.run_tool("compare", dataset, "out.h5:/old", "--transposed")
                self.check_refused(4, [f"/group/{number}", "exists"], "transpose", "a.h5", "-o", dataset)
        self.check_refused(4, ["/old", "exists"], "transpose", "a.h5", "-o", "out.h5:/old/")
        for name in ("//", "/.", "/./"):
            self.check_refused(2, [f"'{name}' names no dataset"], "transpose", "a.h5", "-o", f"out.h5:{name}")

    def test_a_dataset_that_exists_is_refused(self):
        self.check_refused(4, ["out.h5", "/old", "exists"], "transpose", "a.h5", "-o", "out.h5:/old")

    def test_a_file_that_is_no_hdf5_is_refused(self):
        self.write_old("text.h5")
        self.check_refused(4, ["text.h5", "exists"], "transpose", "a.h5", "-o", "text.h5:/new")

    def test_a_failure_leaves_the_file(self):
        write_h5(self.path("big.h5"), random_values("f64", (300, 300)))
        self.check_refused(4, ["out.h5"], "transpose", "big.h5", "-o", "out.h5:/new", file_bytes=100_000)


class SameBytes(OutputCase):
    def test_the_same_run_gives_the_same_file(self):
        write_h5(self.path("big.h5"), random_values("f32", (700, 900), span=3).round(1))
        write_h5(self.path("start.h5"), self.matrix, dataset="old")
        for name in ("new.h5", "new.h5:/old/new", "extended.h5:/new"):
            for storage in (["--chunk", "64x32", "--deflate", "1", "--shuffle"], ["--chunk", "50x70"], []):
                digests = set()
                for _ in range(4):
                    shutil.copy(self.path("start.h5"), self.path("extended.h5"))
                    with contextlib.suppress(FileNotFoundError):
                        os.remove(self.path("new.h5"))
                    self.run_tool("transpose", "big.h5", "-o", name, "--threads", "4", *storage)
                    digests.add(digest(self.path(name.split(":")[0])))
                self.assertEqual(len(digests), 1, (name, storage))


class DamagedExtension(OutputCase):
    """Adding to a damaged file adds what is found there afterwards, or leaves the file as it is."""

    names = [letter * 4 for letter in "ABCDEFG"]

    def damaged(self, content):
        with open(self.path("m.h5"), "wb") as file:
            file.write(content)

    def extend(self, dataset, *extra):
        """The exit code of adding to m.h5. What was added is right where that is 0, else nothing changes."""
        before = snapshot(self.folder)
        result = self.run_tool("transpose", "a.h5", "-o", f"m.h5:/{dataset}", "--force", *extra, code=None)
        if result.code == 0:
            self.assert_same_bits(read_h5(self.path("m.h5"), dataset)[1], self.matrix.T.copy(), str(result))
        else:
            self.assertEqual(snapshot(self.folder), before, str(result))
            self.assertEqual(result.code, 4, str(result))
        return result

    def test_two_links_of_one_name(self):
        with h5py.File(self.path("m.h5"), "w") as file:
            for name in self.names:
                file[name] = self.matrix
        with open(self.path("m.h5"), "rb") as file:
            sound = file.read()
        for kept, renamed in itertools.permutations(self.names, 2):
            self.assertEqual(sound.count(renamed.encode()), 1)
            self.damaged(sound.replace(renamed.encode(), kept.encode()))
            self.assert_says(self.extend(kept), "m.h5", "not all that the file holds is found; the file is damaged")

    def others(self):
        """What m.h5 holds beside BBBB."""
        with h5py.File(self.path("m.h5")) as file:
            found = {name: item[()].tolist() for name, item in file.items() if name != "BBBB"}
            return found, {name: value.tolist() for name, value in file["AAAA"].attrs.items()}

    def test_pieces_of_others_are_not_opened(self):
        """To compare texts, HDF5 would open the files in which they lie. Here it would wait for ever."""
        with h5py.File(self.path("m.h5"), "w") as file:
            file["AAAA"] = self.matrix
            file.create_dataset("text", (3,), h5py.string_dtype(), external=[("elsewhere", 0, 48)])
        os.mkfifo(self.path("elsewhere"))
        self.run_tool("transpose", "a.h5", "-o", "m.h5:/AAAA", "--force")
        self.assert_same_bits(read_h5(self.path("m.h5"), "AAAA")[1], self.matrix.T.copy())

    def test_elements_that_are_said_to_lie_where_something_else_does(self):
        """Wherever that is, what is added is right and the rest stays, or nothing is added."""
        with h5py.File(self.path("m.h5"), "w") as file:
            file["BBBB"] = self.matrix
            file["AAAA"] = self.matrix
            for number in range(20):
                file["AAAA"].attrs[f"note {number}"] = np.full(5, number)
            file["text"] = [f"text {number}" for number in range(20)]
            place = file["BBBB"].id.get_offset()
        with open(self.path("m.h5"), "rb") as file:
            sound = file.read()
        others = self.others()
        stored = struct.pack("<QQ", place, self.matrix.nbytes)
        self.assertEqual(sound.count(stored), 1)
        codes = collections.Counter()
        for target in range(0, len(sound), 256):
            self.damaged(sound.replace(stored, struct.pack("<QQ", target, self.matrix.nbytes)))
            codes[self.extend("BBBB").code] += 1
            self.assertEqual(self.others(), others, target)
        self.assertGreater(codes[4], codes.total() / 2)

    def test_names_that_are_said_to_lie_where_elements_do(self):
        """HDF5 would write them back as it read them, over what was added or what is there."""
        with h5py.File(self.path("m.h5"), "w") as file:
            for number, name in enumerate(self.names[:3]):
                file[name] = np.full(self.matrix.shape, number + 1.0)
            place = file["CCCC"].id.get_offset()
        with open(self.path("m.h5"), "rb") as file:
            sound = file.read()
        heap = sound.index(b"HEAP") + 8
        others = self.others()
        for size in (88, *some(range(place - 4096, len(sound), 504), 4)):
            damaged = sound[:heap] + struct.pack("<Q", size) + sound[heap + 8:]
            for dataset, extra in itertools.product(("BBBB", "new"), ([], ["--chunk", "4x4"], ["--deflate", "1"])):
                with self.subTest(size=size, dataset=dataset, extra=extra):
                    self.damaged(damaged)
                    result = self.extend(dataset, *extra)
                    if result.code == 0:
                        kept, attributes = self.others()
                        kept.pop("new", None)
                        self.assertEqual((kept, attributes), others)
                    self.assertTrue(size != 88 or result.code == 0, str(result))

    def test_data_behind_the_end_that_the_file_says_it_has(self):
        """HDF5 would give that space out again, and what lies there would be lost."""
        for userblock in (0, 512):
            with h5py.File(self.path("m.h5"), "w", userblock_size=userblock) as file:
                file["old"] = self.matrix
            with open(self.path("m.h5"), "rb") as file:
                content = bytearray(file.read())
            (end,) = struct.unpack_from("<Q", content, userblock + 40)
            self.assertIn(end, (len(content), len(content) - userblock))
            struct.pack_into("<Q", content, userblock + 40, end - 400)
            self.damaged(content)
            before = snapshot(self.folder)
            for dry in ([], ["--dry-run"]):
                result = self.run_tool("transpose", "a.h5", "-o", "m.h5:/new", *dry, code=4)
                self.assert_says(result, f"m.h5:/new: the file has {len(content)} bytes and says that it ends after "
                                 f"{len(content) - 400}", "damaged")
            self.assertEqual(snapshot(self.folder), before)

    def three_datasets(self, **storage):
        """Writes m.h5 and returns where the elements, or the first chunk, of each lie, counted as HDF5 stores it."""
        with h5py.File(self.path("m.h5"), "w", userblock_size=512) as file:
            for number, name in enumerate(self.names[:3]):
                file.create_dataset(name, data=self.matrix + number, **storage)
        with h5py.File(self.path("m.h5"), "r") as file:
            ids = [file[name].id for name in self.names[:3]]
            places = [id.get_chunk_info(0).byte_offset if storage else id.get_offset() for id in ids]
        with open(self.path("m.h5"), "rb") as file:
            content = file.read()
        # Versions of HDF5 count the user block in the one, in the other, or in both.
        return [place - 512 * (place.to_bytes(8, "little") not in content) for place in places]

    def test_elements_that_are_said_to_lie_elsewhere(self):
        """HDF5 gives the place of a dataset that is removed to the next one, whosever that is."""
        for storage in ({}, {"chunks": (10, 15)}):
            places = self.three_datasets(**storage)
            with open(self.path("m.h5"), "rb") as file:
                sound = file.read()
            stored = places[1].to_bytes(8, "little")
            self.assertEqual(sound.count(stored), 1)
            size = len(sound) - 512
            for place, words in ((size + 400, "pass the end"), (size - 8, "pass the end"), (65312, "pass the end"),
                                 (2**64 - 3000, "pass the end"), (places[2], "lie where /CCCC lies"),
                                 (places[2] - 16, "lie where"), (0, "lie where the file begins")):
                self.damaged(sound.replace(stored, place.to_bytes(8, "little")))
                before = snapshot(self.folder)
                for options in ([], ["--chunk", "2x2"], ["--deflate", "1"], ["--dry-run"]):
                    result = self.run_tool("transpose", "a.h5", "-o", "m.h5:/BBBB", "--force", *options, code=4)
                    self.assert_says(result, "m.h5:/BBBB: its data, ", words, "; the file is damaged")
                    self.assertEqual(snapshot(self.folder), before)

    def test_a_sound_file_does_not_grow_by_what_is_replaced(self):
        self.matrix = random_values("f64", (60, 70))
        write_h5(self.path("a.h5"), self.matrix)
        for storage in ({}, {"chunks": (10, 15)}):
            for options in ([], ["--chunk", "20x20"]):
                self.three_datasets(**storage)
                sizes = []
                for _ in range(5):
                    self.run_tool("transpose", "a.h5", "-o", "m.h5:/BBBB", "--force", *options)
                    sizes.append(os.path.getsize(self.path("m.h5")))
                self.assertLess(sizes[-1] - sizes[0], self.matrix.nbytes)
                for name, number in (("AAAA", 0), ("CCCC", 2)):
                    self.assert_same_bits(read_h5(self.path("m.h5"), name)[1], self.matrix + number)
                self.assert_same_bits(read_h5(self.path("m.h5"), "BBBB")[1], self.matrix.T.copy())

    def test_where_there_are_many_chunks_the_space_is_not_used_again(self):
        """Whose it is would take long to know."""
        places = self.three_datasets()
        with h5py.File(self.path("m.h5"), "a") as file:
            file.create_dataset("many", data=np.arange(3000.0), chunks=(1,))
        with open(self.path("m.h5"), "rb") as file:
            sound = file.read()
        for place in places[1:]:  # its own, and another's
            self.damaged(sound.replace(places[1].to_bytes(8, "little"), place.to_bytes(8, "little")))
            for options in ([], ["--chunk", "2x2"]):
                self.run_tool("transpose", "a.h5", "-o", "m.h5:/BBBB", "--force", *options)
                self.assert_same_bits(read_h5(self.path("m.h5"), "BBBB")[1], self.matrix.T.copy())
                for name, number in (("AAAA", 0), ("CCCC", 2)):
                    self.assert_same_bits(read_h5(self.path("m.h5"), name)[1], self.matrix + number)

    def test_random_damage(self):
        with h5py.File(self.path("m.h5"), "w") as file:
            for name in self.names:
                file[name] = self.matrix[:2, :2]  # few data, so that the damage is elsewhere
        with open(self.path("m.h5"), "rb") as file:
            sound = file.read()
        random = np.random.default_rng(7)
        codes = []
        for _ in range(100):
            content = bytearray(sound)
            for _ in range(random.integers(1, 4)):
                content[random.integers(len(content))] = random.integers(256)
            self.damaged(content)
            codes.append(self.extend(self.names[random.integers(len(self.names))]).code)
        self.assertEqual(set(codes), {0, 4})


class SameAsInput(OutputCase):
    """Refused through whatever name, also with --force."""

    def check_names(self, *arguments):
        for force in ([], ["--force"]):
            self.check_refused(4, ["input"], *arguments, *force)

    def test_same_name(self):
        self.check_names("transpose", "a.h5", "-o", "a.h5")

    def test_same_dataset(self):
        self.check_names("transpose", "a.h5:/A", "-o", "a.h5:/A")

    def test_other_spelling(self):
        self.check_names("transpose", "a.mtx", "-o", f"./../{os.path.basename(self.folder)}/a.mtx")

    def test_symbolic_link(self):
        os.symlink("a.h5", self.path("link.h5"))
        self.check_names("transpose", "a.h5", "-o", "link.h5")
        self.check_names("transpose", "link.h5", "-o", "a.h5")

    def test_hard_link(self):
        os.link(self.path("a.mtx"), self.path("twin.mtx"))
        self.check_names("transpose", "a.mtx", "-o", "twin.mtx")

    def test_second_and_third_input(self):
        write_h5(self.path("b.h5"), random_values("f64", (30, 20)))
        write_h5(self.path("d.h5"), random_values("f64", (40, 20)))
        for output in ("b.h5", "d.h5"):
            self.check_names("multiply", "a.h5", "b.h5", "--beta", "1", "--add", "d.h5", "-o", output)

    def test_standard_input_redirected_from_the_output(self):
        for force in ([], ["--force"]):
            with open(self.path("a.mtx"), "rb") as stream:
                process = self.start("transpose", "-", "-o", "a.mtx", *force, stdin=stream)
                before = snapshot(self.folder)
                process.communicate()
                self.assertEqual((process.returncode, snapshot(self.folder)), (4, before))


class ReadOnlyFolder(OutputCase):
    def test_folder_without_write_permission(self):
        self.write_old("a.h5.old")
        folder = self.path("closed")
        os.mkdir(folder)
        with open(os.path.join(folder, "out.h5"), "w", encoding="ascii") as file:
            file.write("the old content\n")
        os.chmod(folder, 0o555)
        self.addCleanup(os.chmod, folder, 0o755)
        before = WITHOUT_ROOTS_POWERS if os.geteuid() == 0 else []
        for output in ("out.h5", "new.h5", "new.mtx"):
            self.check_refused(4, [output, "Permission denied"], "transpose", "a.h5", "-o", f"closed/{output}",
                               "--force", before=before)
        self.assertEqual(os.listdir(folder), ["out.h5"])

    def test_folder_that_stops_root(self):
        for folder in ("/proc", "/sys"):
            self.check_refused(4, [f"{folder}/out.h5"], "transpose", "a.h5", "-o", f"{folder}/out.h5")


@unittest.skipUnless(os.geteuid() == 0, "only root can make such files")
class NoReplacement(OutputCase):
    """What the system will not let be replaced is found before anything is computed, and in dry runs."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("folder"))
        write_h5(self.path("folder/out.h5"), self.matrix, dataset="old")
        self.before = self.text()

    def text(self):
        with open(self.path("folder/out.h5"), "rb") as file:
            return file.read()

    def check_both(self, words, before=()):
        for target, options in itertools.product(("out.h5", "out.h5:/new"), ((), ("--dry-run",))):
            result = self.run_tool("transpose", "a.h5", "-o", f"folder/{target}", "--force", *options, code=4, before=before)
            self.assert_says(result, "cannot write", "folder/out.h5: ", words)
            self.assertNotIn("verification", result.err)
            self.assertEqual((os.listdir(self.path("folder")), self.text()), (["out.h5"], self.before))

    def command(self, *words):
        """Runs it, or skips the test where it does not work here."""
        if shutil.which(words[0]) is None or subprocess.run(words, capture_output=True, check=False).returncode != 0:
            self.skipTest(f"{words[0]} does not work here")

    def test_of_another_users_file_in_a_sticky_folder(self):
        os.chmod(self.folder, 0o755)
        os.chmod(self.path("folder"), 0o1777)
        os.chmod(self.path("folder/out.h5"), 0o666)
        stranger = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
        self.command(*stranger, self.tool, "--version")
        self.check_both("another user's file in a sticky folder", before=stranger)
        os.chown(self.path("folder/out.h5"), 12345, 12345)
        self.run_tool("transpose", "a.h5", "-o", "folder/out.h5", "--force", before=stranger)

    def test_of_a_mount_point(self):
        with open(self.path("other"), "wb") as file:
            file.write(self.before)
        self.command("mount", "--bind", self.path("other"), self.path("folder/out.h5"))
        self.addCleanup(subprocess.run, ["umount", self.path("folder/out.h5")], check=True)
        self.check_both("it is a mount point")

    def test_of_what_may_only_grow(self):
        for name, words in (("folder/out.h5", "it is append-only"), ("folder", "its folder is append-only")):
            self.command("chattr", "+a", self.path(name))
            try:
                self.check_both(words)
            finally:
                subprocess.run(["chattr", "-a", self.path(name)], check=True)
        self.run_tool("transpose", "a.h5", "-o", "folder/out.h5", "--force")


class FullDisk(OutputCase):
    def test_dev_full(self):
        for output in (["/dev/full", "--to", "hdf5"], ["/dev/full", "--to", "matrix-market"]):
            for force in ([], ["--force"]):
                with self.subTest(output=output, force=force):
                    self.check_refused(4, ["/dev/full"], "transpose", "a.h5", "-o", *output, *force)
        self.assertTrue(os.path.exists("/dev/full"))

    def test_standard_output_full(self):
        for arguments in (["transpose", "a.h5", "-o", "-"], ["transpose", "a.h5", "--json"], ["levels"],
                          ["devices", "--json"], ["info", "a.h5"], ["--help"], ["transpose", "--help"],
                          ["--version"]):
            with self.subTest(arguments), open("/dev/full", "wb") as full:
                with self.start(*arguments, stdout=full) as process:
                    _, err = process.communicate()
                self.assertEqual(process.returncode, 4, f"{arguments}: {err.decode()}")

    def test_log_full(self):
        result = self.run_tool("transpose", "a.h5", "-o", "out.h5", "--log", "/dev/full", code=4)
        self.assert_says(result, "/dev/full")

    def test_limit_of_the_file_size(self):
        """The disk fills in the middle of the write: RLIMIT_FSIZE cuts it as a full disk does."""
        write_h5(self.path("big.h5"), random_values("f64", (300, 300)))
        for output in ("out.h5", "out.mtx"):
            self.write_old(output)
            for extra in ([], ["--deflate", "1"] if output == "out.h5" else []):
                with self.subTest(output=output, extra=extra):
                    result = self.check_refused(4, [output, "cannot be written: File too large"], "transpose", "big.h5",
                                                "-o", output, "--force", *extra, file_bytes=100_000)
                    self.assertEqual(result.err.count("cannot be written"), 1, result.err)

    def test_limit_of_the_file_size_of_the_log(self):
        with open(self.path("log.jsonl"), "w", encoding="ascii") as file:
            file.write("{" + "x" * 99 + "\n")
        self.check_refused(4, ["log.jsonl"], "transpose", "a.h5", "--log", "log.jsonl", file_bytes=101)


class Log(OutputCase):
    """It is checked as an output is, before anything runs."""

    def check_log(self, log, words, *arguments, **options):
        for dry in ([], ["--dry-run"]):
            with self.subTest(log=log, dry=dry):
                result = self.check_refused(4, [log, *words], *arguments, "--log", log, *dry, **options)
                self.assertNotIn("verification", result.err)

    def test_that_cannot_be_written(self):
        os.mkdir(self.path("folder"))
        with open(self.path("other.csv"), "w", encoding="ascii") as file:
            file.write("other,columns\r\n")
        self.check_log("nowhere/log.jsonl", ["No such file"], "transpose", "a.h5", "-o", "out.h5")
        self.check_log("folder", ["Is a directory"], "transpose", "a.h5", "-o", "out.h5")
        self.check_log("other.csv", ["header"], "transpose", "a.h5", "-o", "out.h5")
        with open(self.path("closed"), "w", encoding="ascii"):
            os.chmod(self.path("closed"), 0o400)
        self.check_log("closed", ["Permission denied"], "transpose", "a.h5", "-o", "out.h5",
                       before=WITHOUT_ROOTS_POWERS if os.geteuid() == 0 else [])

    def test_that_leads_to_the_output(self):
        os.symlink("out.h5", self.path("dangling"))
        os.mkdir(self.path("sub"))
        os.symlink("..", self.path("sub/up"))
        self.check_log("dangling", ["same file", "out.h5"], "transpose", "a.h5", "-o", "out.h5")
        self.check_log("sub/up/out.mtx", ["same file", "out.mtx"], "transpose", "a.h5", "-o", "out.mtx")
        self.check_log("sub/up/dangling", ["same file"], "transpose", "a.h5", "-o", "sub/../out.h5")
        self.write_old()
        os.link(self.path("out.h5"), self.path("twin"))
        self.check_log("twin", ["same file"], "transpose", "a.h5", "-o", "out.h5", "--force")
        self.check_log("a.mtx", ["no log"], "transpose", "nothing.h5")  # not even that of a run that fails

    def test_that_is_an_input_or_a_piece_of_one(self):
        self.matrix.tofile(self.path("raw"))
        with h5py.File(self.path("external.h5"), "w") as file:
            file.create_dataset("A", self.matrix.shape, np.float64, external=[("raw", 0, h5py.h5f.UNLIMITED)])
        layout = h5py.VirtualLayout(self.matrix.shape, np.float64)
        layout[:] = h5py.VirtualSource("a.h5", "A", self.matrix.shape)
        with h5py.File(self.path("virtual.h5"), "w") as file:
            file.create_virtual_dataset("A", layout)
        with h5py.File(self.path("linking.h5"), "w") as file:
            file["A"] = h5py.ExternalLink("a.h5", "/A")
        os.link(self.path("a.h5"), self.path("twin"))
        for log, name in (("raw", "external.h5"), ("twin", "virtual.h5"), ("twin", "linking.h5:/A"), ("twin", "a.h5")):
            self.check_log(log, ["cannot append to the log"], "transpose", name, "--allow-external")
        with open(self.path("raw"), "r+b") as file:
            file.write(b"{")
        self.check_log("raw", ["no log"], "transpose", "external.h5", "--allow-external")
        # What begins as a log may still be a piece.
        with open(self.path("raw"), "r+b") as file:
            file.write(b"{}\n")
        self.check_log("raw", ["same file"], "transpose", "external.h5", "--allow-external")
        self.check_refused(4, ["same file"], "convert", "external.h5", "--allow-external", "-o", "out.mtx", "--log", "raw")

    def test_of_commands_that_write_without_a_level(self):
        generate = ("generate", "identity", "--shape", "2x2", "--to", "matrix-market", "--force")
        self.check_refused(4, ["log.jsonl", "same file"], *generate, "-o", "log.jsonl", "--log", "log.jsonl")
        self.assertFalse(os.path.exists(self.path("log.jsonl")))
        self.check_refused(4, ["a.h5", "same file"], "convert", "a.h5", "-o", "out.mtx", "--log", "a.h5")
        for command in (("generate", "identity", "--shape", "2x2"), ("convert", "a.h5")):
            self.check_refused(4, ["out.h5", "same file"], *command, "-o", "out.h5", "--log", "out.h5")
            self.assertFalse(os.path.exists(self.path("out.h5")))


class ClosedPipe(OutputCase):
    """The reader of a pipe goes away: the run ends at once and quietly, as if by SIGPIPE."""

    def check_closed(self, *arguments):
        reader, writer = os.pipe()
        os.close(reader)
        with self.start(*arguments, stdout=writer) as process:
            os.close(writer)
            _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 141, err.decode())
        self.assertEqual(err.decode(), "")

    def test_reader_gone_before_the_start(self):
        self.check_closed("transpose", "a.h5", "-o", "-")
        self.check_closed("transpose", "a.h5", "--json", "-q")
        self.check_closed("transpose", "a.h5", "--log", "-", "-q")
        self.check_closed("levels")
        self.check_closed("--help")

    def test_reader_takes_the_first_bytes(self):
        write_h5(self.path("big.h5"), random_values("f64", (400, 400)))
        with self.start("transpose", "big.h5", "-o", "-") as process:
            self.assertTrue(process.stdout.readline().startswith(b"%%MatrixMarket"))
            process.stdout.close()
            process.stdin.close()
            err = process.stderr.read().decode()
        self.assertEqual(process.returncode, 141, err)
        self.assertEqual(err, "")

    def test_in_a_pipeline(self):
        with gzip.open(self.path("big.mtx.gz"), "wb", compresslevel=1) as file:
            scipy.io.mmwrite(file, random_values("f64", (500, 300)))
        before = snapshot(self.folder)
        script = 'zcat big.mtx.gz | "$0" transpose - -o - --log runs.jsonl | head -1; echo ${PIPESTATUS[@]}'
        result = subprocess.run(["bash", "-c", script, self.tool], cwd=self.folder, capture_output=True, timeout=60,
                                text=True, check=True, preexec_fn=child_setup())
        self.assertEqual(result.stderr, "")
        self.assertEqual(result.stdout, "%%MatrixMarket matrix array real general\n0 141 0\n")
        with open(self.path("runs.jsonl"), encoding="utf-8") as log:
            self.assertEqual(json.loads(log.read())["exit_code"], 141)
        os.remove(self.path("runs.jsonl"))
        self.assertEqual(snapshot(self.folder), before)

    def test_without_standard_streams_nothing_is_printed_into_the_output(self):
        script = '"$0" transpose a.h5 -o out.h5 --json -v <&- >&- 2>&-'
        process = subprocess.run(["sh", "-c", script, self.tool], cwd=self.folder,
                                 env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(process.returncode, 4)  # the record is not printed
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], self.matrix.T.copy())
        self.run_tool("transpose", "a.h5", "-o", "same.h5")
        self.assertEqual(digest(self.path("out.h5")), digest(self.path("same.h5")))

    def test_no_standard_output_at_all(self):
        process = subprocess.run(["sh", "-c", '"$0" transpose a.h5 -o - >&-', self.tool], cwd=self.folder,
                                 capture_output=True, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual(process.returncode, 4, process.stderr.decode())


class Signals(OutputCase):
    """A signal ends the run with the status of that signal (a shell shows 128 + n) and leaves no trace."""

    size = 300
    first, rest = SLOW_ONES

    def wait_for_output(self, number):
        wait_for(lambda: open_for_writing(number, self.folder), "the output")

    def start_reading(self, *arguments, **options):
        """A run that has opened its output and waits for the rest of its input."""
        before = snapshot(self.folder)
        process = self.start("transpose", "-", *arguments, **options)
        process.stdin.write(self.first)
        process.stdin.flush()
        self.wait_for_output(process.pid)
        return before, process

    def test_while_reading(self):
        self.write_old()
        for output in (["out.h5", "--force"], ["new.h5"], ["new.mtx"]):
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                with self.subTest(output=output, number=number):
                    before, process = self.start_reading("-o", *output)
                    process.send_signal(number)
                    process.communicate(timeout=60)
                    self.assertEqual(process.returncode, -number)
                    after = {name: what for name, what in snapshot(self.folder).items() if name != "core"}
                    self.assertEqual(after, before)

    def test_status_in_the_shell(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            before = snapshot(self.folder)
            script = '"$0" transpose - -o new.h5; exit $?'
            with subprocess.Popen(["sh", "-c", script, self.tool], cwd=self.folder, stdin=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, preexec_fn=child_setup()) as shell:
                shell.stdin.write(self.first)
                shell.stdin.flush()
                with open(f"/proc/{shell.pid}/task/{shell.pid}/children", encoding="ascii") as children:
                    tool = int(children.read())
                self.wait_for_output(tool)
                os.kill(tool, number)
                shell.wait(timeout=60)
            self.assertEqual(shell.returncode, 128 + number)
            self.assertEqual(snapshot(self.folder), before)

    def test_while_writing_to_a_fifo(self):
        """The reader of the FIFO stalls, so that the signal meets the tool inside its write."""
        write_h5(self.path("big.h5"), random_values("f64", (400, 400)))
        os.mkfifo(self.path("fifo.mtx"))
        before = snapshot(self.folder)
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number=number):
                process = self.start("transpose", "big.h5", "-o", "fifo.mtx", "--force")
                with open(self.path("fifo.mtx"), "rb") as fifo:
                    self.assertTrue(fifo.read(100).startswith(b"%%MatrixMarket"))
                    process.send_signal(number)
                    process.communicate(timeout=60)
                self.assertEqual(process.returncode, -number)
                self.assertEqual(snapshot(self.folder), before)

    def test_while_writing_a_file(self):
        """As soon as the output grows. A run that was quicker than that is tried again, larger."""
        for output in ("out.mtx", "out.h5"):
            self.write_old(output)
            for size in (1200, 2400, 4800):
                write_h5(self.path("big.h5"), np.zeros((size, size)) + 1 / 3)
                before = snapshot(self.folder)
                if self.interrupt_write(output):
                    break
                self.write_old(output)
            else:
                self.skipTest("every write was over before it could be interrupted")
            self.assertEqual(snapshot(self.folder), before)

    def interrupt_write(self, output):
        """Whether the run was still going when the signal came."""

        def growing():
            sizes = [os.stat(path).st_size for path in open_for_writing(process.pid, self.folder)]
            return any(size > 4096 for size in sizes) or process.poll() is not None

        process = self.start("transpose", "big.h5", "-o", output, "--force", "--verify", "none")
        try:
            wait_for(growing, "the output to grow")
        except FileNotFoundError:  # closed while it was looked at
            pass
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertIn(process.returncode, (0, -signal.SIGTERM))
        return process.returncode != 0

    def test_ignored_signal_stays_ignored(self):
        _, process = self.start_reading("-o", "new.h5", ignore=[signal.SIGHUP])
        process.send_signal(signal.SIGHUP)
        process.communicate(self.rest, timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assert_same_bits(read_h5(self.path("new.h5"))[1], np.ones((self.size, self.size)))

    def test_two_runs_into_one_file(self):
        """Neither sees the other's temporary file; the first one to finish wins, the other one says so."""
        _, first = self.start_reading("-o", "new.h5")
        _, second = self.start_reading("-o", "new.h5")
        first.communicate(self.rest, timeout=60)
        _, err = second.communicate(b"2\n", timeout=60)
        self.assertEqual((first.returncode, second.returncode), (0, 4), err.decode())
        self.assert_same_bits(read_h5(self.path("new.h5"))[1], np.ones((self.size, self.size)))
        self.assertEqual(sorted(os.listdir(self.folder)), ["a.h5", "a.mtx", "new.h5"])


def word_in(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def cache_bytes():
    """What the caches from the second level up hold, each counted once."""
    found = {}
    for folder in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cache/index*"):
        level, kind, size, shared = map(word_in, (os.path.join(folder, name) for name in
                                                  ("level", "type", "size", "shared_cpu_list")))
        if int(level) > 1 and kind != "Instruction":
            found[level, shared] = int(size[:-1]) * {"K": 2**10, "M": 2**20}[size[-1]]
    return sum(found.values())


class Odds(OutputCase):
    def test_dry_run_touches_nothing(self):
        self.write_old()
        before = snapshot(self.folder)
        result = self.run_tool("transpose", "a.h5", "-o", "out.h5", "--force", "--dry-run", "--json", "-l", "tiled")
        record = result.json()
        self.assertEqual((snapshot(self.folder), record["output"]), (before, None))
        self.assertEqual((record["dry_run"], record["kernel_ms"]["samples"]), (True, []))
        self.assertEqual(record["parameters"]["tile"], "32x32")
        self.assert_says(result, "level 'tiled'", "tile: ", "memory: ", "bound: ")

    def test_dry_run_calls_nothing_a_bound_that_caches_can_beat(self):
        caches = cache_bytes()
        for size in (100, caches / 4, caches):  # u8: input and result are twice that
            rows = 1000
            cols = int(size) // rows + 1
            with h5py.File(self.path("in.h5"), "w") as file:  # never written: there are only headers to read
                file.create_dataset("A", (rows, cols), np.uint8)
            result = self.run_tool("transpose", "in.h5", "--dry-run", "--json", "-d", "cpu", "--memory-limit", "1TB")
            record = result.json()
            if 2 * rows * cols <= caches:
                self.assertEqual((record["bound"], record["bound_ms"]), (None, None))
                self.assert_says(result, "bound: none, for the caches may hold everything; nothing measured")
            else:
                self.assertEqual(record["bound"], "roofline")
                speed = float(re.search(r"copies at (\S+) GB/s", result.err)[1])
                np.testing.assert_allclose(record["bound_ms"], (2 * rows * cols - caches) / speed / 1e6, rtol=1e-3)

    def test_the_bound_is_measured_within_the_memory_limit(self):
        side = math.isqrt(cache_bytes()) + 100  # u8: twice what the caches hold
        with h5py.File(self.path("in.h5"), "w") as file:
            file.create_dataset("A", (side, side), np.uint8)
        result = self.run_tool("transpose", "in.h5", "--dry-run", "--json", "-d", "cpu", "--memory-limit", "100MiB")
        self.assertIsNone(result.json()["bound_ms"])
        self.assert_says(result, "bound: none, for the memory's speed is not known", "100.00 MiB may be taken")
        write_h5(self.path("b.h5"), self.matrix)
        result = self.run_tool("multiply", "a.h5", "b.h5", "--transpose-b", "-t", "f64", "--dry-run", "--json", "-d",
                               "cpu", "--memory-limit", "100MiB")
        self.assertGreater(result.json()["bound_ms"], 0)  # by arithmetic, which needs no memory
        self.assert_says(result, "by arithmetic (memory 0 ms, arithmetic")

    def test_dry_run_adding_to_a_file_copies_nothing(self):
        write_h5(self.path("more.h5"), self.matrix)
        before = snapshot(self.folder)
        self.run_tool("transpose", "a.h5", "-o", "more.h5:/new", "--dry-run")
        self.assertEqual(snapshot(self.folder), before)

    def test_dry_run_refuses_what_the_file_or_its_storage_does_not_allow(self):
        write_h5(self.path("more.h5"), self.matrix)
        with h5py.File(self.path("more.h5"), "a") as file:
            file["group/x"] = self.matrix
            file["soft"] = h5py.SoftLink("/A")
            file["far"] = h5py.ExternalLink("a.h5", "/A")
            file["lost"] = h5py.SoftLink("/nowhere")
            file["one"] = self.matrix
            file["group/other"] = file["one"]
        write_h5(self.path("big.h5"), self.matrix)
        for arguments, code, words in (
                (["-o", "more.h5:/A"], 4, ["more.h5:/A", "exists already", "--force"]),
                (["-o", "more.h5:/group", "--force"], 4, ["more.h5:/group", "is no dataset"]),
                (["-o", "more.h5:/group"], 4, ["more.h5:/group", "is no dataset"]),
                (["-o", "more.h5:/A/b"], 4, ["'/A' is no group"]),
                (["-o", "more.h5:/soft/b"], 4, ["'/soft' is a link"]),
                (["-o", "more.h5:/soft"], 4, ["more.h5:/soft", "is a link to /A"]),
                (["-o", "more.h5:/soft", "--force"], 4, ["more.h5:/soft", "is a link to /A", "not replaced"]),
                (["-o", "more.h5:/far", "--force"], 4, ["is a link to a.h5:/A"]),
                (["-o", "more.h5:/lost", "--force"], 4, ["is a link to /nowhere"]),
                (["-o", "more.h5:/one"], 4, ["more.h5:/one", "2 names in the file (hard links)"]),
                (["-o", "more.h5:/one", "--force"], 4, ["2 names in the file (hard links)", "not replaced"]),
                (["-o", "more.h5:/group/other", "--force"], 4, ["2 names in the file (hard links)"]),
                (["-o", "more.h5:/new", "--chunk", "0x1"], 2, ["--chunk", "0x1"]),
                (["-o", "new.h5", "--chunk", "1000x0"], 2, ["--chunk", "1000x0"])):
            for dry in ([], ["--dry-run"]):
                with self.subTest(arguments=arguments, dry=dry):
                    self.check_refused(code, words, "transpose", "a.h5", *arguments, *dry)
        self.run_tool("transpose", "a.h5", "-o", "more.h5:/A", "--force", "--dry-run")
        with h5py.File(self.path("more.h5"), "a") as file:
            del file["one"]
        self.run_tool("transpose", "a.h5", "-o", "more.h5:/group/other", "--force")
        self.assert_same_bits(read_h5(self.path("more.h5"), "group/other")[1], self.matrix.T.copy())

    def test_dry_run_finds_a_lock(self):
        write_h5(self.path("more.h5"), self.matrix)
        for how in (fcntl.LOCK_SH, fcntl.LOCK_EX):
            with open(self.path("more.h5"), "rb") as file:
                fcntl.flock(file, how)
                for dry in ([], ["--dry-run"]):
                    self.check_refused(4, ["more.h5", "another process"], "transpose", "a.h5", "-o", "more.h5:/new", *dry)

    def test_a_lock_is_waited_for(self):
        write_h5(self.path("more.h5"), self.matrix)
        with open(self.path("more.h5"), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            for line in ("transpose a.h5", "transpose a.h5 --dry-run", "convert a.h5", "generate uniform --shape 2x2"):
                self.check_refused(4, ["more.h5", "another process", "waited for for 0.1 s"], *line.split(), "-o", "more.h5:/new",
                                   "--wait", "0.1")
            runs = [self.start(*line.split(), "-o", f"more.h5:/new{i}", "--wait", "60", stderr=subprocess.PIPE)
                    for i, line in enumerate(("transpose a.h5", "convert a.h5"))]
            for process in runs:
                self.assertIn(b"more.h5: another process has the file open; waiting", process.stderr.readline())
            # Meanwhile another file takes its name, as where a run of ours had it.
            write_h5(self.path("next.h5"), self.matrix + 1)
            os.replace(self.path("next.h5"), self.path("more.h5"))
        for process in runs:
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, err)
        with h5py.File(self.path("more.h5")) as file:
            self.assertEqual(sorted(file), ["A", "new0", "new1"])
            np.testing.assert_array_equal(file["A"][()], self.matrix + 1)
            np.testing.assert_array_equal(file["new0"][()], self.matrix.T)

    def test_a_signal_ends_waiting(self):
        write_h5(self.path("more.h5"), self.matrix)
        before = snapshot(self.folder)
        with open(self.path("more.h5"), "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            process = self.start("transpose", "a.h5", "-o", "more.h5:/new", "--wait", "60", stderr=subprocess.PIPE)
            process.stderr.readline()
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual(snapshot(self.folder), before)

    def test_an_output_that_is_refused_is_not_computed(self):
        write_h5(self.path("more.h5"), self.matrix)
        record = self.record("transpose", "a.h5", "-o", "more.h5:/A", code=4)
        self.assertEqual((record["exit_code"], record["kernel_ms"]["samples"]), (4, []))

    def test_fifo_as_output(self):
        os.mkfifo(self.path("fifo.mtx"))
        process = self.start("transpose", "a.h5", "-o", "fifo.mtx", "--force")
        with open(self.path("fifo.mtx"), "rb") as fifo:
            text = fifo.read()
        process.communicate(timeout=60)
        with open(self.path("copy.mtx"), "wb") as copy:
            copy.write(text)
        self.assert_same_bits(read_mtx(self.path("copy.mtx")), self.matrix.T.copy())

    def test_a_fifo_that_nobody_reads(self):
        """Every output is refused soon; none is waited for, for ever."""
        names = ["fifo.mtx", "fifo.log", "fifo.md", "fifo.h5"]
        for name in names:
            os.mkfifo(self.path(name))
        self.run_tool("transpose", "a.h5", "--log", "runs.jsonl")
        write_h5(self.path("b.h5"), self.matrix + 1)
        before = snapshot(self.folder)
        runs = [self.start("transpose", "a.h5", "-o", names[0]), self.start("transpose", "a.h5", "--log", names[1]),
                self.start("report", "runs.jsonl", "-o", names[2]), self.start("compare", "a.h5", "b.h5", "--save-mismatch", names[3])]
        for name, process in zip(names, runs):
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 4, err)
            self.assertIn(f"{name}: it is a FIFO that nobody reads from", err.decode())
        self.assertEqual(snapshot(self.folder), before)

    def test_a_fifo_whose_reader_comes_late(self):
        os.mkfifo(self.path("fifo.log"))
        with self.start("transpose", "a.h5", "--log", "fifo.log") as process:
            time.sleep(1)
            with open(self.path("fifo.log"), encoding="utf-8") as fifo:
                self.assertEqual(json.loads(fifo.read())["exit_code"], 0)
            process.communicate(timeout=60)

    def test_fifo_as_input(self):
        write_mtx(self.path("a.mtx"), self.matrix)
        os.mkfifo(self.path("fifo"))
        process = self.start("transpose", "fifo", "-o", "out.h5")
        with open(self.path("a.mtx"), "rb") as file, open(self.path("fifo"), "wb") as fifo:
            fifo.write(file.read())
        process.communicate(timeout=60)
        self.assert_same_bits(read_h5(self.path("out.h5"))[1], self.matrix.T.copy())

    def test_folder_that_ends_in_a_colon(self):
        os.mkdir(self.path("q:"))
        write_h5(self.path("q:/a.h5"), self.matrix, dataset="A")
        write_h5(self.path("q:/a.h5"), self.matrix + 1, dataset="B", mode="a")
        self.run_tool("transpose", "q:/a.h5:/B", "-o", "q:/out.h5")
        self.assert_same_bits(read_h5(self.path("q:/out.h5"))[1], (self.matrix + 1).T.copy())
        self.run_tool("transpose", "a.h5", "-o", "q:/new.h5:/deep/A")
        self.assert_same_bits(read_h5(self.path("q:/new.h5"), "deep/A")[1], self.matrix.T.copy())
        self.run_tool("transpose", "q:/a.h5:/A", "-o", "new.h5:/q:/A")
        self.assert_same_bits(read_h5(self.path("new.h5"), "q:/A")[1], self.matrix.T.copy())

    def test_name_that_is_no_utf8(self):
        name = b"a\xff.h5"
        write_h5(os.path.join(os.fsencode(self.folder), name), self.matrix)
        listed = self.run_tool("info", "--json", name).json()["matrices"]
        self.assertEqual([(matrix["path"], matrix["rows"]) for matrix in listed], [("a\ufffd.h5", len(self.matrix))])

    def test_error_of_the_run_outlives_that_of_the_log(self):
        result = self.run_tool("transpose", "nothing.h5", "--log", "/dev/full", "--json", code=3)
        self.assert_says(result, "nothing.h5: No such file", "/dev/full")
        self.assertEqual(result.json()["exit_code"], 3)

    def test_names_with_odd_characters(self):
        name = "ein Name mit 'Zeichen' und :/doppelpunkt é.h5"
        os.mkdir(self.path(os.path.dirname(name)))
        write_h5(self.path(name), self.matrix)
        self.run_tool("transpose", name, "-o", "größe.h5")
        self.assert_same_bits(read_h5(self.path("größe.h5"))[1], self.matrix.T.copy())


if __name__ == "__main__":
    unittest.main()
