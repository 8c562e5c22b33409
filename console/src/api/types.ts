// The parts of Kubernetes and Karmada objects that the console reads.

export interface Meta {
  name: string;
  namespace?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: { kind: string; name: string; apiVersion: string; uid: string; controller?: boolean }[];
  managedFields?: unknown[];
  finalizers?: string[];
}

export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

export interface KObject {
  apiVersion?: string;
  kind?: string;
  metadata: Meta;
  // The rest depends on the kind and is read with care.
  spec?: any;
  status?: any;
  [field: string]: any;
}

export interface TargetCluster {
  name: string;
  replicas?: number;
}

export interface AggregatedStatus {
  clusterName: string;
  applied?: boolean;
  appliedMessage?: string;
  health?: "Healthy" | "Unhealthy" | "Unknown";
  status?: any;
}

export interface Taint {
  key: string;
  value?: string;
  effect: string;
  timeAdded?: string;
}

export interface Subject {
  apiVersion: string;
  kind: string;
  namespace?: string;
  name: string;
}

export type StageState = "Done" | "Waiting" | "Failed" | "Ahead" | string;

export interface Stage {
  name: string;
  state: StageState;
  since?: string;
  summary: string;
  details?: string[];
  nextStep?: string;
  data?: any;
}

export interface Why {
  subject: Subject;
  state: StageState;
  verdict: string;
  nextStep?: string;
  stages: Stage[];
  text: string;
  safeMode?: { on: boolean };
}

export interface PlanAction {
  cluster: string;
  what: string;
  replicasBefore?: number;
  replicasAfter?: number;
  fields?: string[];
  problem?: string;
  /** The object in the cluster, for users who may read it. */
  manifest?: { before: KObject | null; after: KObject | null };
}

export interface Planned {
  subject: Subject;
  policy?: string;
  actions: PlanAction[];
  problem?: string;
  reasons?: string[];
  notes?: string[];
}

export interface ChangePlan {
  templates: Planned[];
  problems?: string[];
  notes?: string[];
  text: string;
}

export interface Simulation {
  cluster: string;
  totals: { moves: number; covered: number; stays: number; doesNotFit: number; replicasMoved: number; replicasWithoutRoom: number };
  bindings: { subject: Subject; verdict: string; replicas: number; to?: TargetCluster[]; withoutRoom?: number; reason?: string }[];
  gains: Record<string, number>;
  notes?: string[];
  text: string;
}

export const keyOf = (object: { metadata: Meta }) =>
  object.metadata.namespace ? `${object.metadata.namespace}/${object.metadata.name}` : object.metadata.name;

export const conditionOf = (object: KObject | undefined, type: string): Condition | undefined =>
  (object?.status?.conditions as Condition[] | undefined)?.find((condition) => condition.type === type);
