// A link to the page of an object that is named by its kind.

import type { ReactNode } from "react";
import { Link } from "wouter";
import { useDiscovery } from "../api/resources";
import type { Subject } from "../api/types";
import { pageOfKind } from "../model/links";

/** The name of the object, or `children`; a link when the control plane serves its kind. */
export function ObjectLink({ to, tab, children }: { to: Subject; tab?: string; children?: ReactNode }) {
  const discovery = useDiscovery();
  const href = pageOfKind(discovery.data, to);
  const text = children ?? to.name;
  return href ? <Link href={tab ? `${href}?tab=${tab}` : href}>{text}</Link> : <>{text}</>;
}
