"""What the chart promises: rendered by Helm's own library, without a cluster and without a network.

Run by `cargo xtask chart`, which installs what it imports.
"""

import copy
import json
import re
import sys
import unittest
from pathlib import Path

import helm_python as helm
import kubernetes_validate
import yaml

TREE = Path(__file__).resolve().parents[2]
CHART = TREE / "deploy" / "helm" / "weft"

# The oldest version of Kubernetes that the chart takes, and the newest whose schemas are there.
VERSIONS = ["1.32", kubernetes_validate.latest_version()]

# Without this the chart renders nothing.
TRUSTED = {"insecure": True}

# For each value another one, so that it shows whether the value has an effect.
OTHERS = {
    "insecure": False,
    "nodes": 2,
    "image.repository": "registry.example/weft",
    "image.tag": "1.2.3",
    "image.pullPolicy": "Always",
    "image.pullSecrets": ["registry-login"],
    "cluster.replicas": 2,
    "cluster.durability": "fsync",
    "cluster.partitions": 128,
    "memory": "512MiB",
    "resources.requests.cpu": "500m",
    "resources.requests.memory": "1Gi",
    "resources.limits.memory": "4Gi",
    "storage.size": "20Gi",
    "storage.className": "fast",
    "hosts": "DoNotSchedule",
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "weft", "operator": "Exists", "effect": "NoSchedule"}],
    "upgradePauseSeconds": 300,
    "log.filter": "warn,weft_server=debug",
    "log.format": "text",
}

# What may be given and is not there by default.
OPTIONAL = {"resources.limits.cpu": "2"}

# A parent chart's, which Helm adds.
FOREIGN = {"global"}

WRONG = {
    "nodes": [0, -1, "3", 1.5, None],
    "insecure": ["true", 1],
    "image.pullPolicy": ["always"],
    "image.repository": [""],
    "image.pullSecrets": ["registry-login", [{"name": "registry-login"}]],
    "cluster.replicas": [0, 4],
    "cluster.durability": ["disc", ""],
    "cluster.partitions": [0, 4097],
    "memory": ["half", "-1GiB", " 1GiB", "1GiBs", "67108864.5", ".", "%", "0%", "0.0%", ".0 %", "100.1%", "150%", "-1%", 50],
    "resources.requests.cpu": [1, "one"],
    "resources.limits.memory": ["2GB", 2],
    "storage.size": ["8GB", ""],
    "hosts": ["Always"],
    "tolerations": [[{"keys": "weft"}], {}],
    "upgradePauseSeconds": [-1, "60s"],
    "log.format": ["xml"],
    "log.filter": ["", " ", "bogus", "info,,", ",info", "info,", "trace[", "7", "weft_server=loud", "info warn", "a=b=info"],
    "logs": ["info"],
    "image.registry": ["registry.example"],
    "resources.limits.disk": ["1Gi"],
}

# Values that look odd, and that a node takes.
ODD = {
    "memory": [
        "1Gi", "1 GiB", "1g", "1.5GiB", ".5TiB", "64.MiB", "064MiB", "64MiB", "65536KiB", "67108864", "67108864B", "67.2MB", "67109kB",
        "0.0625GiB", "1PiB", "1EB", "100%", "100.0%", "99.9%", "0.001%", ".5 %", "12.5 %",
    ],
    "log.filter": [
        "off", "error", "INFO", "Warn", "0", "5", "weft_server=debug", "warn,weft_server=debug", "weft_server::node=3,info",
        "weft_server[{key}]=trace",
    ],
}

# Sizes of memory that are too little for a node.
TOO_SMALL = ["0", "1", "67108863", "67108863B", "0MiB", "1kB", "10MiB", "63MiB", "63.9 mi", "67.1MB", "65535KiB", "0.06GiB"]

# Requests above limits, by what is asked for.
ABOVE_LIMIT = {
    "cpu": [("1", "500m"), ("1001m", "1"), ("1.5", "1"), ("2", "1999m")],
    "memory": [
        ("4Gi", "2Gi"), ("2Gi", "2G"), ("1Ti", "1T"), ("1025Mi", "1Gi"), ("1025Ki", "1Mi"), ("1001k", "1M"), ("1001G", "1T"),
        ("1.5Gi", "1Gi"), ("10", "9"), ("1Pi", "1P"),
    ],
}

WITHIN_LIMIT = {
    "cpu": [("1", "1000m"), ("500m", "0.5"), ("999m", "1"), ("9", "10")],
    "memory": [("1024Mi", "1Gi"), ("2G", "2Gi"), ("1000k", "1M"), ("1073741824", "1Gi"), ("512Mi", "0.5Gi"), ("9Gi", "10Gi")],
}

# YAML has some of these for a boolean or for nothing.
GOOD_NAMES = ["weft", "true", "no", "on", "null", "a", "x0-1", "a" * 40]

BAD_NAMES = ["my.release", "a" * 39 + ".b", "12", "0x10", "1a", "a" * 41]


def nested(path, value):
    """`{"a": {"b": value}}` for `a.b`."""
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def merged(one, other):
    result = copy.deepcopy(one)
    for key, value in other.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def leaves(values, prefix=""):
    """The paths of all values; an empty map is one, since there is nothing in it."""
    for key, value in values.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{path}.")
        else:
            yield path


def objects_of(schema, path=""):
    """The parts of a schema that describe maps with keys of their own."""
    if "properties" in schema:
        yield path, schema
    for key, part in schema.get("properties", {}).items():
        yield from objects_of(part, f"{path}{key}.")
    if "items" in schema:
        yield from objects_of(schema["items"], f"{path}[].")


class ChartTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.chart = helm.Chart.load(CHART)
        cls.defaults = yaml.safe_load((CHART / "values.yaml").read_text())

    @classmethod
    def tearDownClass(cls):
        cls.chart.close()

    def render(self, values=None, name="demo"):
        """Every manifest, by kind and name."""
        files = self.chart.render(merged(TRUSTED, values or {}), name=name, namespace="prod")
        documents = [document for text in files.values() for document in yaml.safe_load_all(text)]
        return {(one["kind"], one["metadata"]["name"]): one for one in documents if one}

    def pod(self, values=None):
        return self.render(values)["StatefulSet", "demo"]["spec"]["template"]["spec"]

    def arguments(self, values=None):
        return self.pod(values)["containers"][0]["args"]

    def validate(self, manifests):
        for manifest in manifests.values():
            for version in VERSIONS:
                kubernetes_validate.validate(manifest, version, strict=True)

    def test_manifests_are_what_kubernetes_takes(self):
        manifests = self.render()
        self.assertEqual(
            sorted(kind for kind, _ in manifests),
            ["PodDisruptionBudget", "Service", "Service", "ServiceAccount", "StatefulSet"],
        )
        self.validate(manifests)

    def test_manifests_that_kubernetes_would_not_take_are_found(self):
        manifests = self.render()
        manifests["StatefulSet", "demo"]["spec"]["replica"] = 3
        with self.assertRaises(kubernetes_validate.ValidationError):
            self.validate(manifests)

    def test_helm_finds_no_fault(self):
        report = helm.lint(CHART, TRUSTED, strict=True)
        # It misses a picture of the chart, which is no fault.
        self.assertEqual([one for one in report["messages"] if one["severity"] > 1], [])
        self.assertEqual(report["errors"], [])

    def test_each_value_has_an_effect(self):
        self.assertEqual(sorted(OTHERS), sorted(leaves(self.defaults)))
        before = self.render()
        for path, value in (OTHERS | OPTIONAL).items():
            with self.subTest(path):
                if path == "insecure":
                    with self.assertRaisesRegex(helm.HelmRenderError, "insecure=true"):
                        self.render(nested(path, value))
                    continue
                after = self.render(nested(path, value))
                self.assertNotEqual(before, after)
                self.validate(after)

    def test_each_value_is_explained(self):
        lines = (CHART / "values.yaml").read_text().splitlines()
        keys = {path.split(".")[-1] for path in leaves(self.defaults)}
        for before, line in zip(lines, lines[1:]):
            key = line.strip().split(":")[0]
            if key in keys and not line.endswith(":"):
                self.assertTrue(before.strip().startswith("#"), f"no comment above `{line}`")

    def test_the_schema_knows_the_values_and_no_others(self):
        schema = json.loads((CHART / "values.schema.json").read_text())
        known = {f"{path}{key}" for path, part in objects_of(schema) for key in part["properties"]}
        of_lists = {path for path in known if "[]" in path}
        there = {path for leaf in leaves(self.defaults) for path in prefixes(leaf)}
        self.assertEqual(known - of_lists - set(OPTIONAL) - FOREIGN, there)
        for path, part in objects_of(schema):
            self.assertIs(part["additionalProperties"], False, path)

    def test_wrong_values_are_refused(self):
        for path, values in WRONG.items():
            for value in values:
                with self.subTest(path, value=value):
                    with self.assertRaisesRegex(helm.HelmError, "don't meet the specifications"):
                        self.render(nested(path, value))

    def test_odd_values_that_a_node_takes_are_handed_on(self):
        flags = {"memory": "--memory", "log.filter": "--log"}
        for path, values in ODD.items():
            for value in values:
                with self.subTest(path, value=value):
                    self.assertIn(f"{flags[path]}={value}", self.arguments(nested(path, value)))

    def test_memory_that_is_too_little_is_refused(self):
        for value in TOO_SMALL:
            with self.subTest(value=value):
                with self.assertRaisesRegex(helm.HelmRenderError, "a node needs at least 64MiB"):
                    self.render({"memory": value})

    def resources(self, values=None):
        return self.pod({"resources": values or {}})["containers"][0]["resources"]

    def test_a_pod_asks_for_its_limits(self):
        both = {"memory": "2Gi"}
        self.assertEqual(self.resources(), {"requests": both | {"cpu": "1"}, "limits": both})
        limits = {"cpu": "500m", "memory": "1Gi"}
        self.assertEqual(self.resources({"limits": limits}), {"requests": limits, "limits": limits})

    def test_a_pod_may_ask_for_less_and_not_for_more(self):
        for name, pairs in WITHIN_LIMIT.items():
            for request, limit in pairs:
                with self.subTest(name, request=request, limit=limit):
                    resources = self.resources({"requests": {name: request}, "limits": {name: limit}})
                    self.assertEqual((resources["requests"][name], resources["limits"][name]), (request, limit))
        for name, pairs in ABOVE_LIMIT.items():
            for request, limit in pairs:
                with self.subTest(name, request=request, limit=limit):
                    with self.assertRaisesRegex(helm.HelmRenderError, f"above resources.limits.{name}"):
                        self.resources({"requests": {name: request}, "limits": {name: limit}})

    def test_flags_are_those_of_the_program(self):
        page = (TREE / "docs" / "configuration.md").read_text()
        for argument in self.arguments():
            flag = argument.split("=")[0]
            self.assertRegex(page, rf"\| `{flag}[ \[`]", f"docs/configuration.md has no {flag}")
        for variable in self.pod()["containers"][0]["env"]:
            if variable["name"] != "POD_NAME":
                self.assertIn(f"| `{variable['name']}` |", page)

    def test_the_chart_is_of_the_version_of_the_programs(self):
        manifest = (TREE / "Cargo.toml").read_text()
        version = re.search(r'^version = "(.+)"$', manifest, re.MULTILINE)[1]
        self.assertEqual(self.chart.metadata["appVersion"], version)
        self.assertIn(f"weft:{version}", (TREE / "deploy" / "docker" / "compose.yaml").read_text())

    def test_nodes_found_a_cluster_together(self):
        manifests = self.render()
        spec = manifests["StatefulSet", "demo"]["spec"]
        self.assertEqual(spec["podManagementPolicy"], "Parallel")
        peers = manifests["Service", spec["serviceName"]]["spec"]
        self.assertEqual(peers["clusterIP"], "None")
        self.assertTrue(peers["publishNotReadyAddresses"])
        # Pods are numbered from where ordinals start, and each is told its own number.
        self.assertEqual(spec["ordinals"], {"start": 1})
        names = [f"demo-{ordinal}.{spec['serviceName']}:7400" for ordinal in (1, 2, 3)]
        self.assertIn(f"--join={','.join(names)}", self.arguments())
        self.assertIn("--join=demo-1.demo-peers:7400", self.arguments({"nodes": 1}))

    def test_more_nodes_restart_none(self):
        self.assertEqual(self.pod({"nodes": 3}), self.pod({"nodes": 9}))

    def test_only_readiness_depends_on_others(self):
        container = self.pod()["containers"][0]
        paths = {name: container[name]["httpGet"]["path"] for name in container if name.endswith("Probe")}
        self.assertEqual(
            paths, {"startupProbe": "/health", "livenessProbe": "/health", "readinessProbe": "/ready"}
        )

    def test_pods_may_do_nothing_that_they_need_not(self):
        manifests = self.render()
        pod = self.pod()
        container = pod["containers"][0]["securityContext"]
        self.assertIs(manifests["ServiceAccount", "demo"]["automountServiceAccountToken"], False)
        self.assertIs(pod["automountServiceAccountToken"], False)
        self.assertIs(pod["securityContext"]["runAsNonRoot"], True)
        self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        self.assertIs(container["readOnlyRootFilesystem"], True)
        self.assertIs(container["allowPrivilegeEscalation"], False)
        self.assertEqual(container["capabilities"], {"drop": ["ALL"]})

    def test_the_image_has_the_user_and_the_folder(self):
        image = (TREE / "deploy" / "docker" / "Dockerfile").read_text()
        user = self.pod()["securityContext"]
        self.assertIn(f"USER {user['runAsUser']}:{user['runAsGroup']}\n", image)
        folder = self.pod()["containers"][0]["volumeMounts"][0]["mountPath"]
        self.assertIn(f"VOLUME {folder}\n", image)
        self.assertIn(f"--data-dir={folder}", self.arguments())

    def test_objects_are_called_by_the_release(self):
        for release in GOOD_NAMES:
            with self.subTest(release):
                manifests = self.render(name=release)
                self.validate(manifests)
                self.assertEqual({name for _, name in manifests}, {release, f"{release}-peers"})
                for manifest in manifests.values():
                    self.assertEqual(manifest["metadata"]["labels"]["app.kubernetes.io/instance"], release)

    def test_names_that_objects_cannot_have_are_refused(self):
        for release in BAD_NAMES:
            with self.subTest(release):
                with self.assertRaisesRegex(helm.HelmRenderError, "No release can be called"):
                    self.render(name=release)

    def test_words_of_yaml_are_texts(self):
        values = {"image": {"pullSecrets": ["12", "no"]}, "nodeSelector": {"on": "no"}, "storage": {"className": "null"}}
        values["tolerations"] = [{"key": "true", "operator": "Equal", "value": "1"}]
        self.validate(self.render(values))


def prefixes(path):
    """`a`, `a.b` and `a.b.c` for `a.b.c`."""
    keys = path.split(".")
    return [".".join(keys[: end + 1]) for end in range(len(keys))]


if __name__ == "__main__":
    print(f"Helm {helm.helm_sdk_version()}; Kubernetes {' and '.join(VERSIONS)}", file=sys.stderr)
    unittest.main()
