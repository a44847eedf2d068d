"""What is installed and packaged: every file in its place, and usable from there, also by a program of one's own."""

import os
import re
import shutil
import subprocess
import unittest

import numpy as np

from harness import Case, read_h5, write_h5

BUILD = os.environ["GPUMAT_BUILD"]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

TOOL_FILES = {
    "bin/gpumat",
    "share/bash-completion/completions/gpumat",
    "share/fish/vendor_completions.d/gpumat.fish",
    *(f"share/doc/gpumat/examples/{name}" for name in ("pipeline", "batch", "nightly_check")),
    *(f"share/doc/gpumat/{name}" for name in ("README.md", "CHANGELOG.md")),
    *(f"share/gpumat/schemas/{name}" for name in os.listdir(os.path.join(ROOT, "schemas"))),
}


def run(*words, **options):
    found = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    assert found.returncode == 0, f"{words}: exit {found.returncode}\n{found.stdout}"
    return found.stdout


def files_in(folder):
    return {os.path.relpath(os.path.join(at, name), folder) for at, _, names in os.walk(folder) for name in names}


def manual_pages(gpumat):
    """One for the tool and one for every command that the help of the tool, or of verify, lists."""
    pages = {"gpumat"}
    for path in (["gpumat"], ["gpumat", "verify"]):
        listed = run(gpumat, *path[1:], "--help").split("Commands:")[1].split("General:")[0]
        pages |= {"-".join([*path, name]) for name in re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE)}
    return {f"share/man/man1/{page}.1" for page in pages}


class InstalledCase(Case):
    def check_tool(self, prefix, zsh_folder):
        """The tool's files are these and no others, beside those of the library; and they work where they are."""
        gpumat = os.path.join(prefix, "bin", "gpumat")
        expected = TOOL_FILES | manual_pages(gpumat) | {f"share/zsh/{zsh_folder}/_gpumat"}
        self.assertEqual({name for name in files_in(prefix) if not re.match("include/|lib/|share/doc/libgpumat-dev/", name)}, expected)
        self.assertRegex(run(gpumat, "--version"), r"^gpumat \d")
        matrix = np.arange(35, dtype=np.float32).reshape(5, 7)
        write_h5(self.path("a.h5"), matrix)
        run(gpumat, "transpose", "a.h5", "-d", "cpu", "-o", "at.h5", cwd=self.folder)
        self.assert_same_bits(read_h5(self.path("at.h5"))[1], matrix.T.copy())
        self.check_examples(prefix, gpumat)

    def check_examples(self, prefix, gpumat):
        environment = {**os.environ, "PATH": os.path.dirname(gpumat) + ":" + os.environ["PATH"], "GPUMAT_CACHE": "",
                       "CUDA_VISIBLE_DEVICES": ""}
        environment.pop("GPUMAT")  # the scripts take the one in the path
        examples = os.path.join(prefix, "share", "doc", "gpumat", "examples")
        for name in ("pipeline", "batch"):
            os.mkdir(self.path(name))
            said = run(os.path.join(examples, name), self.path(name), env=environment)
            self.assertIn({"pipeline": "are equal", "batch": "2 done before"}[name], said)
        os.mkdir(self.path("results"))
        for number in (1, 2, 3, 4):
            os.rename(self.path(f"batch/out/{number}_transposed.h5"), self.path(f"results/{number}_t.h5"))
        os.remove(self.path("batch/in/late.h5"))  # it has no transpose
        said = run(os.path.join(examples, "nightly_check"), "batch/in", "results", "check.jsonl", env=environment, cwd=self.folder)
        self.assertIn("4 jobs: 4 done", said)


class Installation(InstalledCase):
    def install(self, component, folder):
        run("cmake", "--install", BUILD, "--prefix", self.path(folder), "--component", component)
        return self.path(folder)

    def test_tool(self):
        self.check_tool(self.install("runtime", "tool"), "site-functions")

    def test_public_headers(self):
        """Those that cmake/public_headers.cmake names, and what they include: each compiles by itself, and no other is there."""
        prefix = self.install("development", "library")
        with open(os.path.join(ROOT, "cmake", "public_headers.cmake"), encoding="utf-8") as file:
            open_headers = re.search(r"set\(GPUMAT_PUBLIC_HEADERS([^)]*)\)", file.read()).group(1).split()
        closure = set()
        while open_headers:
            header = open_headers.pop()
            if header not in closure:
                closure.add(header)
                with open(os.path.join(ROOT, header), encoding="utf-8") as file:
                    open_headers += re.findall(r'^#include "(.*?)"', file.read(), re.MULTILINE)
        self.assertEqual(files_in(os.path.join(prefix, "include", "gpumat")), closure)
        self.assertLess(len(closure), 40)
        everything = "".join(f'#include "{header}"\n' for header in sorted(closure))
        run("c++", "-std=c++20", "-fsyntax-only", "-I", os.path.join(prefix, "include", "gpumat"), "-x", "c++", "-", input=everything)

    def test_consumer(self):
        prefix = self.install("development", "library")
        source = os.path.join(prefix, "share", "doc", "libgpumat-dev", "examples", "library")
        build = self.path("build")
        run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Debug")
        run("cmake", "--build", build)
        matrix = np.arange(77, dtype=np.float64).reshape(7, 11)
        write_h5(self.path("a.h5"), matrix)
        environment = {**os.environ, "GPUMAT_CACHE": "", "CUDA_VISIBLE_DEVICES": ""}
        said = run(os.path.join(build, "consumer"), "a.h5", "at.h5", "tiled", cwd=self.folder, env=environment)
        self.assertIn("transpose f64 7x11 at level 'tiled': passed\n11x7, last element 76\nstored result: passed", said)
        self.assert_same_bits(read_h5(self.path("at.h5"))[1], matrix.T.copy())
        failed = subprocess.run([os.path.join(build, "consumer"), "missing.h5", "x.h5"], cwd=self.folder, check=False,
                                stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.assertEqual(failed.returncode, 3)
        self.assertIn(b"missing.h5", failed.stderr)


class Commit(Case):
    def found(self):
        run("cmake", f"-DSOURCE_DIR={self.path('source')}", f"-DOUTPUT={self.path('commit.hpp')}", "-P",
            os.path.join(ROOT, "cmake", "commit.cmake"))
        with open(self.path("commit.hpp"), encoding="utf-8") as file:
            return re.fullmatch('#define GPUMAT_COMMIT "(.*)"\n', file.read()).group(1)

    def test_of_the_sources_alone(self):
        os.mkdir(self.path("source"))
        self.assertEqual(self.found(), "unknown")
        run("git", "init", "-q", cwd=self.folder)  # a repository around them is not theirs
        self.assertEqual(self.found(), "unknown")

    def test_with_changes(self):
        git = ("git", "-C", self.path("source"), "-c", "user.name=a", "-c", "user.email=a@b")
        run("git", "init", "-q", self.path("source"))
        for text in ("one", "two"):
            with open(self.path("source/file"), "w", encoding="utf-8") as file:
                file.write(text)
            if text == "one":
                run(*git, "add", "file")
                run(*git, "commit", "-qm", "one")
                commit = run(*git, "rev-parse", "HEAD")[:12]
                self.assertEqual(self.found(), commit)
        self.assertEqual(self.found(), commit + "-dirty")


@unittest.skipUnless(shutil.which("dpkg-shlibdeps") and shutil.which("dpkg-deb"), "no tools for Debian packages")
class Package(InstalledCase):
    def test_debian_packages(self):
        run("cpack", "-G", "DEB", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", self.path("packages"))
        packages = {name.split("_")[0]: self.path(f"packages/{name}") for name in os.listdir(self.path("packages"))
                    if name.endswith(".deb")}
        self.assertEqual(set(packages) - {"gpumat-mpi"}, {"gpumat", "libgpumat-dev"})
        run("dpkg-deb", "-x", packages["gpumat"], self.path("root"))
        self.check_fields(packages)
        self.assertEqual(os.listdir(self.path("root")), ["usr"])
        folder = "vendor-completions" if os.path.exists("/etc/debian_version") else "site-functions"
        self.check_tool(self.path("root/usr"), folder)
        run("dpkg-deb", "-x", packages["libgpumat-dev"], self.path("dev"))
        library = files_in(self.path("dev/usr"))
        self.assertEqual({name for name in library if not re.match("include/gpumat/|lib/|share/doc/libgpumat-dev/", name)}, set())
        self.assertIn("include/gpumat/lib/run/run.hpp", library)
        self.assertTrue(any(name.endswith("cmake/gpumat/gpumatConfig.cmake") for name in library))

    def check_fields(self, packages):
        """The packages of the libraries that the tool is linked with, as dpkg knows them, are what it depends on."""
        fields = {name: run("dpkg-deb", "-f", packages["gpumat"], name).strip() for name in ("Depends", "Version", "Recommends")}
        with open(os.path.join(ROOT, "CMakeLists.txt"), encoding="utf-8") as file:
            self.assertEqual(fields["Version"], re.search(r"project\(gpumat VERSION (\S+)", file.read()).group(1))
        self.assertIn("openblas", fields["Recommends"])
        self.assertRegex(fields["Depends"], r"libzip\d+ \| libzip\d+t64")  # which is loaded
        depends = {word.split()[0] for word in fields["Depends"].split(",")}
        needed = set(re.findall(r"NEEDED +(\S+)", run("objdump", "-p", self.path("root/usr/bin/gpumat"))))
        self.assertIn("libc.so.6", needed)
        for name, path in re.findall(r"(\S+) => (\S+)", run("ldd", self.path("root/usr/bin/gpumat"))):
            if name in needed and name != "libm.so.6":  # in the package of libc
                owners = run("dpkg", "-S", f"*/{os.path.basename(os.path.realpath(path))}")
                names = {line.split(":")[0] for line in owners.splitlines()}
                provided = [run("dpkg-query", "-W", "-f", "${Provides}", package) for package in sorted(names)]
                names |= {word.split()[0] for text in provided for word in text.split(",") if word.strip()}
                self.assertTrue(depends & names, f"{name} of {names}, not in {depends}")
        self.assertIn("libhdf5-dev", run("dpkg-deb", "-f", packages["libgpumat-dev"], "Depends"))


if __name__ == "__main__":
    unittest.main()
