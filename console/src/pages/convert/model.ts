// Makes a template and a policy of an object that a cluster already runs.

import { apiVersionOf, type Resource } from "../../api/resources";
import type { KObject } from "../../api/types";

export const MANAGED = "karmada.io/managed";

/** Objects that controllers of the cluster create are no applications of a user. */
export const isOwn = (object: KObject) =>
  !(object.metadata.ownerReferences ?? []).some((owner) => owner.controller) &&
  object.metadata.labels?.[MANAGED] !== "true" &&
  !(object.metadata.name === "kubernetes" && object.spec?.clusterIP) &&
  object.metadata.name !== "kube-root-ca.crt" &&
  object.type !== "kubernetes.io/service-account-token";

const DROPPED_ANNOTATIONS = /^(kubectl\.kubernetes\.io\/last-applied-configuration|deployment\.kubernetes\.io\/)/;

/** The template: what a user writes, without what the cluster filled in. */
export function templateOf(resource: Resource, object: KObject): KObject {
  const { name, namespace, labels, annotations } = object.metadata;
  const kept = Object.fromEntries(Object.entries(annotations ?? {}).filter(([key]) => !DROPPED_ANNOTATIONS.test(key)));
  const { apiVersion: _a, kind: _k, metadata: _m, status: _s, ...rest } = structuredClone(object);
  const template: KObject = {
    apiVersion: apiVersionOf(resource),
    kind: resource.kind,
    metadata: { name, namespace, ...(labels ? { labels } : {}), annotations: { ...kept, "work.karmada.io/conflict-resolution": "overwrite" } },
    ...rest,
  };
  if (resource.kind === "Service") for (const field of ["clusterIP", "clusterIPs", "healthCheckNodePort"]) if (template.spec?.[field] !== "None") delete template.spec?.[field];
  if (resource.kind === "Job") delete template.spec?.selector;
  if (resource.kind === "Job") for (const label of Object.keys(template.spec?.template?.metadata?.labels ?? {})) if (/controller-uid|job-name/.test(label)) delete template.spec.template.metadata.labels[label];
  return template;
}

/** A policy for each namespace: a policy selects objects of its own namespace. */
export const policiesFor = (templates: KObject[], cluster: string, name: string): KObject[] =>
  [...new Set(templates.map((one) => one.metadata.namespace))].map((namespace) => policyFor(templates.filter((one) => one.metadata.namespace === namespace), cluster, name));

/** A policy that leaves the object where it is, and leaves it there when the template is deleted. */
function policyFor(templates: KObject[], cluster: string, name: string): KObject {
  const namespace = templates[0]?.metadata.namespace;
  return {
    apiVersion: "policy.karmada.io/v1alpha1",
    kind: namespace ? "PropagationPolicy" : "ClusterPropagationPolicy",
    metadata: { name, ...(namespace ? { namespace } : {}) },
    spec: {
      conflictResolution: "Overwrite",
      preserveResourcesOnDeletion: true,
      propagateDeps: true,
      placement: { clusterAffinity: { clusterNames: [cluster] } },
      resourceSelectors: templates.map((one) => ({ apiVersion: one.apiVersion, kind: one.kind, name: one.metadata.name })),
    },
  };
}

interface Reference {
  kind: "ConfigMap" | "Secret" | "ServiceAccount" | "PersistentVolumeClaim";
  name: string;
}

/** What the pods of a workload refer to. */
export function referencesOf(workload: KObject): Reference[] {
  const pod = workload.kind === "CronJob" ? workload.spec?.jobTemplate?.spec?.template?.spec : workload.spec?.template?.spec;
  if (!pod) return [];
  const found: Reference[] = [];
  const add = (kind: Reference["kind"], name?: string) => name && !found.some((one) => one.kind === kind && one.name === name) && found.push({ kind, name });
  const volume = (one: any) => {
    add("ConfigMap", one.configMap?.name);
    add("Secret", one.secret?.secretName ?? one.secret?.name);
    add("PersistentVolumeClaim", one.persistentVolumeClaim?.claimName);
    for (const source of one.projected?.sources ?? []) volume(source);
  };
  for (const one of pod.volumes ?? []) volume(one);
  for (const container of [...(pod.containers ?? []), ...(pod.initContainers ?? [])]) {
    for (const source of container.envFrom ?? []) {
      add("ConfigMap", source.configMapRef?.name);
      add("Secret", source.secretRef?.name);
    }
    for (const variable of container.env ?? []) {
      add("ConfigMap", variable.valueFrom?.configMapKeyRef?.name);
      add("Secret", variable.valueFrom?.secretKeyRef?.name);
    }
  }
  for (const secret of pod.imagePullSecrets ?? []) add("Secret", secret.name);
  if (pod.serviceAccountName !== "default") add("ServiceAccount", pod.serviceAccountName);
  return found.filter((one) => one.name !== "kube-root-ca.crt");
}
