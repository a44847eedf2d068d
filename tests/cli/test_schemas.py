"""What commands print as JSON is what the installed schemas say, and a schema finds what is not."""

import copy
import json
import os
import unittest

import jsonschema

from harness import Case, cases, random_values, write_h5

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "schemas")


def schema_of(document):
    with open(os.path.join(FOLDER, document["schema"].split(".")[1].split("/")[0] + ".json"), encoding="utf-8") as file:
        return json.load(file)


def required_places(schema, document, path=()):
    """Every required name that the document has, as a path to it."""
    if isinstance(document, dict):
        for name in schema.get("required", []):
            yield (*path, name)
        for name, inner in schema.get("properties", {}).items():
            if name in document:
                yield from required_places(inner, document[name], (*path, name))
    if isinstance(document, list) and document:
        yield from required_places(schema.get("items", {}), document[0], (*path, 0))


def without(document, path):
    changed = copy.deepcopy(document)
    place = changed
    for name in path[:-1]:
        place = place[name]
    del place[path[-1]]
    return changed


@cases([(line.replace(" ", "_"), code, line) for code, line in [
    (0, "transpose a.h5"), (0, "transpose a.h5 -o out.h5"), (0, "transpose a.h5 --dry-run"), (3, "transpose nothing.h5"),
    (0, "multiply a.h5 b.h5 --add a.h5 --alpha 2"), (0, "multiply a.h5 b.h5 --verify freivalds"), (2, "multiply a.h5 b.h5 --alpha x"),
    (1, "multiply a.h5 b.h5 --tolerance 1e-30"), (0, "multiply i.h5 i.h5"), (0, "multiply c.h5 c.h5 --alpha 1,2"),
    (0, "reduce a.h5"), (0, "verify transpose a.h5 at.h5"), (1, "verify transpose a.h5 a.h5"), (3, "verify transpose a.h5 no.h5"),
    (8, "verify transpose a.h5 n.mtx"), (0, "compare a.h5 a.h5"), (1, "compare a.h5 b.h5"), (8, "compare a.h5 n.mtx"),
    (0, "compare n.mtx n.mtx"), (0, "compare two.h5 two.h5"), (1, "compare two.h5 more.h5"), (1, "compare n.mtx n.mtx --nan differ --ulp 2"), (3, "compare a.h5 no.h5"),
    (0, "generate normal --mean 2 --shape 3x3 -o out.h5"), (2, "generate hilbert -t i8 --shape 3x3 -o out.h5"),
    (0, "convert a.h5 -o out.mtx"), (3, "convert no.h5 -o out.mtx"), (0, "info a.h5 n.mtx"), (0, "info --stats a.h5 n.mtx c.h5"),
    (0, "levels"), (0, "levels transpose --size 64 --device cpu"), (0, "devices"), (0, "probe ilp -d cpu"),
    (0, "bench transpose --size 64 --device cpu --time-limit 0.01"), (0, "bench multiply --size 64 --device cpu --time-limit 0.01"),
    (1, "batch jobs.txt"), (0, "report new.json --against old.json"), (3, "report cut.jsonl"),
]])
class Outputs(Case):
    def setUp(self):
        super().setUp()
        write_h5(self.path("a.h5"), random_values("f64", (20, 20), seed=1))
        write_h5(self.path("b.h5"), random_values("f64", (20, 20), seed=2))
        write_h5(self.path("at.h5"), random_values("f64", (20, 20), seed=1).T.copy())
        for name in ("A", "B"):
            write_h5(self.path("two.h5"), random_values("f64", (20, 20), seed=1), dataset=name, mode="a")
            write_h5(self.path("more.h5"), random_values("f64", (20, 20), seed=2), dataset=name * 2, mode="a")
        write_h5(self.path("i.h5"), random_values("i32", (20, 20)))
        write_h5(self.path("c.h5"), random_values("c64", (20, 20)))
        with open(self.path("n.mtx"), "w", encoding="ascii") as file:
            file.write("%%MatrixMarket matrix array real general\n2 2\nnan\ninf\n-inf\n1\n")
        with open(self.path("jobs.txt"), "w", encoding="ascii") as file:
            file.write("compare a.h5 b.h5\ntranspose a.h5\ntranspose no.h5\nfrobnicate\nverify transpose a.h5 at.h5\n"
                       "generate --shape 2x2 -o g.h5\nconvert a.h5 -o g.mtx\ninfo a.h5\n")

        rows = [{"op": "transpose", "level": level, "type": "f32", "m": 9, "n": 9, "median_ms": 2.0, "low_ms": 1.99, "high_ms": 2.01}
                for level in ("both", "only")]
        failed = {"schema": "gpumat.run/1", "op": "transpose", "version": "0.1.0", "error": "no", "exit_code": 3}
        for name, documents in (("new.json", [{"schema": "gpumat.bench/1", "cache": "hot", "rows": rows}, failed]),
                                ("old.json", [{"schema": "gpumat.bench/1", "cache": "hot", "rows": [rows[0], {**rows[1], "m": 8}]}])):
            with open(self.path(name), "w", encoding="ascii") as file:
                file.write("\n".join(map(json.dumps, documents)))
        with open(self.path("cut.jsonl"), "w", encoding="ascii") as file:
            file.write(json.dumps(failed) + "\n" + json.dumps(failed)[:20])

    def check_document(self, document):
        schema = schema_of(document)
        jsonschema.Draft7Validator.check_schema(schema)
        validator = jsonschema.Draft7Validator(schema)
        self.assertEqual([f"{list(error.path)}: {error.message}" for error in validator.iter_errors(document)], [])
        for path in required_places(schema, document):
            self.assertFalse(validator.is_valid(without(document, path)), path)
        self.assertFalse(validator.is_valid({**document, "schema": "gpumat.other/1"}))

    def check(self, code, line):
        self.check_document(self.run_tool(*line.split(), "--json", code=code).json())

    def test_tunings(self):
        self.check_document(self.run_tool("tune", "--show", "--json", env={"GPUMAT_CACHE": self.path("cache")}).json())

    def test_records_of_jobs(self):
        result = self.run_tool("batch", "jobs.txt", "--log", "-", code=1)
        documents = [json.loads(line) for line in result.out.splitlines()]
        self.assertEqual(len(documents), 8)
        for document in documents:
            self.check_document(document)
            self.assertIn("job", document)
        self.run_tool("transpose", "a.h5", "b.h5", "-o", "{.}_t.h5", "--log", "log.jsonl")
        with open(self.path("log.jsonl"), encoding="utf-8") as file:
            documents = [json.loads(line) for line in file]
        self.assertIn("gpumat.batch-output/1", [document["schema"] for document in documents])
        for document in documents:
            self.check_document(document)


if __name__ == "__main__":
    unittest.main()
