"""Drives a server with the Python client as its users do: typed objects, watches, patches, dynamic resources."""

import sys

from kubernetes import client, config, dynamic, watch

config.load_kube_config(sys.argv[1])
core, apps = client.CoreV1Api(), client.AppsV1Api()

assert client.VersionApi().get_code().minor == "36"
assert "default" in [n.metadata.name for n in core.list_namespace().items]

core.create_namespaced_config_map("default", client.V1ConfigMap(metadata=client.V1ObjectMeta(name="py"), data={"a": "1"}))
core.patch_namespaced_config_map("py", "default", {"data": {"a": "2"}})
assert core.read_namespaced_config_map("py", "default").data == {"a": "2"}

labels = {"app": "py"}
deployment = client.V1Deployment(
    metadata=client.V1ObjectMeta(name="py"),
    spec=client.V1DeploymentSpec(
        replicas=2,
        selector=client.V1LabelSelector(match_labels=labels),
        template=client.V1PodTemplateSpec(
            metadata=client.V1ObjectMeta(labels=labels),
            spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="nginx")]),
        ),
    ),
)
apps.create_namespaced_deployment("default", deployment)
scale = apps.read_namespaced_deployment_scale("py", "default")
assert scale.spec.replicas == 2
apps.patch_namespaced_deployment_scale("py", "default", {"spec": {"replicas": 4}})
assert apps.read_namespaced_deployment("py", "default").spec.replicas == 4

seen = []
for event in watch.Watch().stream(core.list_namespaced_config_map, "default", field_selector="metadata.name=py", timeout_seconds=20):
    seen.append(event["type"])
    if event["type"] == "ADDED":
        core.delete_namespaced_config_map("py", "default")
    if event["type"] == "DELETED":
        break
assert seen == ["ADDED", "DELETED"], seen

try:
    core.read_namespaced_config_map("py", "default")
    raise AssertionError("a deleted object was read")
except client.ApiException as error:
    assert error.status == 404, error

plural = dynamic.DynamicClient(client.ApiClient()).resources.get(api_version="v1", kind="Namespace")
assert [n.metadata.name for n in plural.get().items]
apps.delete_namespaced_deployment("py", "default")
print("the python client is content")
