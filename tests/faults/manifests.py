#!/usr/bin/env python3
"""Manifests for Kubernetes: their fields against the published schemas, their exit codes, variables
and words against this engine.

    tests/faults/manifests.py JOBSET_CRD TRAININGRUNTIME_CRD TRAINJOB_CRD

writes kubernetes_fields.json, what the schemas say about the fields that the manifests use; it
needs PyYAML. The schemas lie in the repositories and versions that SOURCES names."""

import json
import pathlib
import re
import subprocess
import sys

import engines
import jobs
import suite

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TABLE = pathlib.Path(__file__).with_name("kubernetes_fields.json")
FILES = ("jobset.yaml", "trainjob.yaml")
CONFIGS = "/opt/fmengine/share/fmengine/configs"
SOURCES = [
    "github.com/kubernetes-sigs/jobset v0.12.0: "
    "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml",
    "github.com/kubeflow/trainer v2.3.0: manifests/base/crds/trainer.kubeflow.org_"
    "trainingruntimes.yaml and trainer.kubeflow.org_trainjobs.yaml",
]
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
# A schema leaves these to Kubernetes itself (meta/v1).
OWN = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {
    "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}


def documents(name):
    """The documents of a file of examples/."""
    if not engines.has_module("yaml"):
        raise suite.Skipped(f"not in {engines.PYTHON}: yaml")
    script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.stdin))))"
    text = (ROOT / "examples" / name).read_text()
    done = subprocess.run([engines.PYTHON, "-c", script], input=text, capture_output=True, text=True)
    return json.loads(done.stdout)


def title(document):
    """What it is, as the table names it."""
    return f"{document.get('apiVersion')} {document.get('kind')}"


def children(value, path):
    """(path, value) of what lies in a value. Elements of a list share one path, ~1 is a slash."""
    if isinstance(value, dict):
        return [(path + "/" + key.replace("/", "~1"), inner) for key, inner in value.items()]
    return [(f"{path}[]", inner) for inner in value] if isinstance(value, list) else []


def of_map(path, fields):
    """The path, or that of any key where the names are the user's, as those of labels."""
    return path if path in fields else path.rpartition("/")[0] + "/*"


def problems(document, table):
    """What the schema does not take, as text."""
    if title(document) not in table:
        return [f"no schema of {title(document)}"]
    fields, found = table[title(document)], []
    todo = [("", document)]
    while todo:
        path, value = todo.pop()
        known = fields.get(of_map(path, fields))
        if known is None:
            found.append(f"{path}: unknown")
        elif type(value) is not TYPES[known["type"]]:
            found.append(f"{path}: {known['type']} is expected, found {value!r}")
        elif value not in known.get("enum", [value]):
            found.append(f"{path}: one of {known['enum']} is expected, found {value!r}")
        else:
            found += [f"{path}: lacks {key}" for key in known.get("required", []) if key not in value]
            todo += children(value, path)
    return found


def facts(document, schema):
    """path -> type, enum and required of all that the document uses."""
    schema = {**schema, "properties": {**schema["properties"], **OWN},
              "required": ["apiVersion", "kind", "metadata", "spec"]}
    found, todo = {}, [("", document, schema)]
    while todo:
        path, value, here = todo.pop()
        found[path] = {key: here[key] for key in ("type", "enum", "required") if key in here}
        for below, inner in children(value, path):
            key = below[len(path) + 1:].replace("~1", "/")
            named = here.get("properties", {})
            if isinstance(value, list):
                todo.append((below, inner, here["items"]))
            elif key in named:
                todo.append((below, inner, named[key]))
            else:
                todo.append((f"{path}/*", inner, here["additionalProperties"]))
    return found


def main():
    """Writes the table."""
    import yaml  # only here: the suite runs with any Python

    rows = [f'"sources": {json.dumps(SOURCES)}']
    schemas = {}
    for path in sys.argv[1:]:
        crd = yaml.safe_load(pathlib.Path(path).read_text())["spec"]
        for version in crd["versions"]:
            name = f"{crd['group']}/{version['name']} {crd['names']['kind']}"
            schemas[name] = version["schema"]["openAPIV3Schema"]
    for file in FILES:
        for document in documents(file):
            found = sorted(facts(document, schemas[title(document)]).items())
            lines = [f'  "{path}": {json.dumps(fact)}' for path, fact in found]
            rows.append(f'"{title(document)}": {{\n' + ",\n".join(lines) + "\n}")
    TABLE.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def classes(case):
    """code -> class, as docs/exit-codes.md and `fmengine explain` say."""
    table = re.findall(r"^\| (\d+) \| (permanent|try-again)", (ROOT / "docs/exit-codes.md").read_text(),
                       re.MULTILINE)
    found = {int(code): word for code, word in table}
    for code, word in found.items():
        done = subprocess.run([case.settings.build / "fmengine", "explain", str(code)],
                              capture_output=True, text=True)
        case.expect(done.stdout.splitlines()[:1] == [word], f"{code}: {word}, not {done.stdout}")
    return found


def value_of(entry):
    """Of a variable, in the pod whose index is 1."""
    if "secretKeyRef" in entry.get("valueFrom", {}):
        return "ab" * 32
    path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
    return "1" if path.endswith("job-completion-index']") else entry["value"]


def check_fields(case, found):
    """Everything in these documents is in the published schemas."""
    table = json.loads(TABLE.read_text())
    for document in found:
        wrong = problems(document, table)
        case.expect(not wrong, f"{title(document)}: {wrong}")


def check_job(case, spec):
    """A permanent code fails the job and then the set; its pod, and the seconds of its grace."""
    job = spec["replicatedJobs"][0]["template"]["spec"]
    rule = job["podFailurePolicy"]["rules"][0]
    permanent = [code for code, word in classes(case).items() if word == "permanent"]
    case.expect(rule["onExitCodes"]["values"] == permanent, f"permanent codes are {permanent}")
    case.expect(rule["action"] == "FailJob" and job["backoffLimit"] == 0, str(rule))
    case.expect([r["action"] for r in spec["failurePolicy"]["rules"]] == ["FailJobSet", "RestartJobSet"],
                str(spec["failurePolicy"]))
    pod = job["template"]["spec"]
    container = pod["containers"][0]
    case.expect(rule["onExitCodes"]["containerName"] == container["name"], container["name"])
    case.expect(pod["restartPolicy"] == "Never", "a podFailurePolicy needs it")
    return job, container, pod["terminationGracePeriodSeconds"]


def check_words(case, command, variables, pod_s):
    """The program takes the words and variables of a container."""
    grace = [int(word.partition("=")[2]) for word in command if word.startswith("--grace_s=")]
    case.expect(grace and 0 < pod_s - grace[0] <= 10, f"--grace_s {grace} beside {pod_s} s of the pod")
    case.expect("FME_JOB_TOKEN" in variables and "--resume=auto" in command, str(command))
    words = [word.replace(CONFIGS, f"{ROOT}/configs") for word in command[1:]
             if not word.startswith(("--init_ckpt", "--num_train_epochs"))]  # they read /shared
    words += ["--print_config", "--model_config", f"{ROOT}/configs/models/llama-5m-bytes.json"]
    before = ("env", *(f"{name}={value}" for name, value in variables.items()))
    job = case.finish(jobs.Launch(words, starter="engine", engine=before))
    case.expect_codes(job, (0,), "the words of the manifest")


def jobset(case):
    """jobset.yaml."""
    found = documents("jobset.yaml")
    check_fields(case, found)
    job, container, pod_s = check_job(case, found[0]["spec"])
    variables = {entry["name"]: value_of(entry) for entry in container["env"]}
    case.expect(variables["PET_NNODES"] == str(job["completions"]) == str(job["parallelism"]), "nodes")
    check_words(case, container["command"], variables, pod_s)


def trainjob(case):
    """trainjob.yaml: the trainer adds PET_* to the container `node` of the job with its label, and
    refuses a TrainJob that sets them itself."""
    found = documents("trainjob.yaml")
    check_fields(case, found)
    runtime, train = found
    spec = runtime["spec"]["template"]["spec"]
    _, container, pod_s = check_job(case, spec)
    labels = spec["replicatedJobs"][0]["template"]["metadata"]["labels"]
    case.expect((container["name"], *labels.values()) == ("node", "trainer"), str(labels))
    reference = train["spec"]["runtimeRef"]
    case.expect(reference == {"kind": runtime["kind"], "name": runtime["metadata"]["name"]}, str(reference))
    trainer = train["spec"]["trainer"]
    variables = {entry["name"]: value_of(entry) for entry in trainer["env"]}
    case.expect(not any(name.startswith("PET_") for name in variables), str(variables))
    variables |= {"PET_NNODES": trainer["numNodes"], "PET_NODE_RANK": 1, "PET_MASTER_PORT": 29500,
                  "PET_NPROC_PER_NODE": trainer["numProcPerNode"],
                  "PET_MASTER_ADDR": f"{train['metadata']['name']}-node-0-0.{train['metadata']['name']}"}
    check_words(case, trainer["command"], variables, pod_s)


if __name__ == "__main__":
    main()
