// Manifests to begin with.

import { msg } from "../../i18n";

export const SAMPLES: { id: string; text: string; manifest: (clusters: string[]) => string }[] = [
  {
    id: "divided",
    text: msg("Deployment, divided among clusters"),
    manifest: (clusters) => `apiVersion: apps/v1
kind: Deployment
metadata:
  name: nginx
  namespace: default
  labels: {app: nginx}
spec:
  replicas: 6
  selector:
    matchLabels: {app: nginx}
  template:
    metadata:
      labels: {app: nginx}
    spec:
      containers:
      - name: nginx
        image: nginx:1.27
        resources:
          requests: {cpu: 100m, memory: 64Mi}
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: nginx
  namespace: default
spec:
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
    name: nginx
  placement:
    clusterAffinity:
      clusterNames: [${clusters.join(", ")}]
    replicaScheduling:
      replicaSchedulingType: Divided
      replicaDivisionPreference: Weighted
`,
  },
  {
    id: "duplicated",
    text: msg("ConfigMap in every cluster"),
    manifest: () => `apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  namespace: default
data:
  greeting: hello
---
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata:
  name: settings
  namespace: default
spec:
  resourceSelectors:
  - apiVersion: v1
    kind: ConfigMap
    name: settings
  placement: {}
`,
  },
  {
    id: "override",
    text: msg("Other image in one cluster"),
    manifest: (clusters) => `apiVersion: policy.karmada.io/v1alpha1
kind: OverridePolicy
metadata:
  name: nginx-image
  namespace: default
spec:
  resourceSelectors:
  - apiVersion: apps/v1
    kind: Deployment
    name: nginx
  overrideRules:
  - targetCluster:
      clusterNames: [${clusters[0] ?? "member1"}]
    overriders:
      imageOverrider:
      - component: Tag
        operator: replace
        value: "1.26"
`,
  },
];
