"""The objects of deploy/ at a real API server: parsed strictly, admitted, and granting exactly the documented
rights."""

import time
import unittest

import cluster
import tools

ACCOUNT = "system:serviceaccount:gcwatch:gcwatch"


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cluster.Cluster()
        cls.addClassCleanup(cls.cluster.end)
        cluster.install(cls.cluster)

    def refused(self, status, method, path, body=None, **more):
        with self.assertRaises(cluster.Refused) as caught:
            self.cluster.ask(method, path, body, **more)
        self.assertEqual(caught.exception.status, status, caught.exception.body)
        return caught.exception.body

    def test_every_manifest_is_taken(self):
        """Scenario: every object that kustomize and the chart build is created in a dry run with strict field
        validation.
        Guarantee: the API server accepts each object unchanged."""
        made = {place: tools.kustomized(place) for place in ("overlays/plain", "overlays/with-collector", "overlays/sidecar")}
        made |= {f"chart, {case}": tools.rendered(case) for case in tools.cases()}
        count = 0
        for place, text in made.items():
            for document in tools.documents(text):
                # The definition of this kind belongs to the Prometheus Operator, which is not installed here.
                if document["apiVersion"].startswith("monitoring.coreos.com/"):
                    continue
                with self.subTest(place=place, kind=document["kind"], name=document["metadata"]["name"]):
                    # Objects of the installation exist already, so create them under another name.
                    document["metadata"]["name"] += "-on-trial"
                    namespace = document["metadata"].get("namespace")
                    if namespace and namespace != "gcwatch":
                        document["metadata"]["namespace"] = "gcwatch"
                    at = self.cluster.place(document, "gcwatch")
                    self.cluster.ask("POST", f"{at}?fieldValidation=Strict&dryRun=All", document)
                    count += 1
        self.assertGreater(count, 25)
        print(f"{count} objects of {len(made)} renderings taken", end=" ", flush=True)

    def test_rights_are_exactly_documented(self):
        """Scenario: the rights of the installed service account are compared with an account without roles.
        Guarantee: the account may additionally list and watch pods; the API server refuses everything else, including
        reading a single pod."""
        rules = {}
        self.cluster.namespace("bare")
        for namespace, account in (("gcwatch", "gcwatch"), ("bare", "default")):
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace}}
            token = self.cluster.token(namespace, account)
            at = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
            status = self.cluster.ask("POST", at, review, token=token)["status"]
            self.assertFalse(status["incomplete"], status)
            rules[account] = status["resourceRules"], status["nonResourceRules"]
        more = [rule for rule in rules["gcwatch"][0] if rule not in rules["default"][0]]
        self.assertEqual(more, [{"verbs": ["list", "watch"], "apiGroups": [""], "resources": ["pods"]}])
        self.assertCountEqual(rules["gcwatch"][1], rules["default"][1])
        token = self.cluster.token("gcwatch", "gcwatch")
        self.cluster.ask("GET", "/api/v1/pods?limit=1", token=token)
        for path in ("/api/v1/namespaces/gcwatch/pods/none", "/api/v1/nodes", "/api/v1/secrets", "/apis/apps/v1/deployments"):
            self.refused(403, "GET", path, token=token)
        self.refused(403, "DELETE", "/api/v1/namespaces/gcwatch/pods", token=token)

    def test_only_listed_images_are_admitted(self):
        """Scenario: deploy/policies/admission is installed in a namespace; pods have a listed digest, a tag, or an
        unknown init container.
        Guarantee: the API server admits only the first pod, and the refusals name the ConfigMap."""
        digest = "ab" * 32
        text = (tools.DEPLOY / "policies/admission/only-listed-images.yaml").read_text()
        text = text.replace("namespace: gcwatch", "namespace: listed").replace("metadata.name: gcwatch", "metadata.name: listed").replace("0" * 64, digest)
        self.cluster.namespace("listed")
        for document in tools.documents(text):
            self.cluster.create(self.cluster.place(document), document)

        def pod(image, **more):
            return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "gcwatch-1"}, "spec": {"containers": [{"name": "gcwatch", "image": image}], **more}}

        at = "/api/v1/namespaces/listed/pods?dryRun=All"
        good, bad = pod(f"mirror.example/gcwatch@sha256:{digest}"), pod("images.example/gcwatch:0.1.0")
        # A new policy comes into force after some seconds.
        until = time.monotonic() + 60
        while True:
            try:
                self.cluster.ask("POST", at, bad)
            except cluster.Refused as refused:
                if "gcwatch-images" in refused.body:
                    self.assertEqual(refused.status, 403)
                    break
            self.assertLess(time.monotonic(), until, "the policy is in force")
            time.sleep(0.5)
        self.cluster.ask("POST", at, good)
        foreign = pod(good["spec"]["containers"][0]["image"], initContainers=[{"name": "other", "image": "registry.example/other:1"}])
        self.assertIn("gcwatch-images", self.refused(403, "POST", at, foreign))

    def test_pod_security_level_is_documented(self):
        """Scenario: the DaemonSet's pod is created in the installed namespace and in namespaces of each level of pod
        security.
        Guarantee: only `privileged` admits the pod, and each refusal names hostPID and SYS_PTRACE, like
        docs/security.md."""
        (daemon,) = (each for each in tools.documents(tools.kustomized("overlays/plain")) if each["kind"] == "DaemonSet")
        pod = daemon["spec"]["template"]
        pod["metadata"]["name"] = "gcwatch-1"
        trial = "pods?fieldValidation=Strict&dryRun=All"
        taken = self.cluster.ask("POST", f"/api/v1/namespaces/gcwatch/{trial}", pod)
        mounts = taken["spec"]["containers"][0]["volumeMounts"]
        # The path of the token that gcwatch reads.
        self.assertIn("/var/run/secrets/kubernetes.io/serviceaccount", [mount["mountPath"] for mount in mounts])
        pod["spec"].update(serviceAccountName="default")
        for level in ("baseline", "restricted"):
            self.cluster.namespace(level)
            self.cluster.patch(f"/api/v1/namespaces/{level}", {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": level}}})
            said = self.refused(403, "POST", f"/api/v1/namespaces/{level}/{trial}", pod)
            for reason in ("violates PodSecurity", "hostPID=true", "SYS_PTRACE"):
                self.assertIn(reason, said)
