// Former pod templates of a workload, from the objects in which each cluster keeps them.

import type { KObject } from "../api/types";

export interface Revision {
  number: number;
  cluster: string;
  /** The object that keeps it. */
  source: string;
  template: any;
  images: string[];
  created?: string;
  /** What the workload asks for now. */
  current: boolean;
  /** Pods that have it, where the object says so. */
  pods?: { ready: number; desired: number };
}

/** The plural of the kind that keeps the revisions of a workload. */
export const revisionsIn = (kind: string) => (kind === "Deployment" ? "replicasets" : "controllerrevisions");

const imagesOf = (template: any): string[] => (template?.spec?.containers ?? []).map((container: { image?: string }) => container.image ?? "");

/** The pod template without the label that a Deployment adds to those of its ReplicaSets. */
function templateOfSet(set: KObject): any {
  const { labels = {}, creationTimestamp: _, ...metadata } = set.spec?.template?.metadata ?? {};
  const { "pod-template-hash": _hash, ...own } = labels;
  return { ...set.spec?.template, metadata: { ...metadata, labels: own } };
}

/** A ControllerRevision holds a patch that replaces the template. */
function templateOfRevision(revision: KObject): any {
  const { $patch: _, ...template } = revision.data?.spec?.template ?? {};
  return template.spec ? template : undefined;
}

/** The revisions of one workload among the objects of a cluster, newest first. */
export function revisionsOf(workload: KObject, cluster: string, objects: KObject[]): Revision[] {
  const isOwn = (object: KObject) => object.metadata.ownerReferences?.some((owner) => owner.kind === workload.kind && owner.name === workload.metadata.name);
  const found = objects.filter(isOwn).flatMap((object): Revision[] => {
    const ofSet = workload.kind === "Deployment";
    const template = ofSet ? templateOfSet(object) : templateOfRevision(object);
    if (!template) return [];
    const number = ofSet ? Number(object.metadata.annotations?.["deployment.kubernetes.io/revision"] ?? 0) : Number(object.revision ?? 0);
    const pods = ofSet ? { ready: object.status?.readyReplicas ?? 0, desired: object.spec?.replicas ?? 0 } : undefined;
    return [{ number, cluster, source: object.metadata.name, template, images: imagesOf(template), created: object.metadata.creationTimestamp, current: false, pods }];
  });
  found.sort((a, b) => b.number - a.number);
  // Going back to a former template gives it a new number, so that the highest is what is wanted.
  return found.map((revision, index) => ({ ...revision, current: index === 0 }));
}
