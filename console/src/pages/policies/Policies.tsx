// Propagation and override policies, with what each of them holds.

import { Link, useLocation } from "wouter";
import { useBindingSummary } from "../../api/bindings";
import { useLive } from "../../api/live";
import { pathOf, POLICIES, slugOf } from "../../api/resources";
import type { KObject } from "../../api/types";
import { usePrefs } from "../../app/prefs";
import { useUrlState } from "../../app/urlState";
import { msg, t } from "../../i18n";
import { policyKey } from "../../model/bindingSummary";
import { Age, Badge, Empty, Menu, PageHead, Segmented, Stale } from "../../ui/parts";
import { DataTable, type TableColumn } from "../../ui/table";
import { placementText, selectorsText } from "./describe";

const TITLES: Record<string, string> = {
  PropagationPolicy: msg("Propagation"), ClusterPropagationPolicy: msg("Cluster propagation"), OverridePolicy: msg("Override"), ClusterOverridePolicy: msg("Cluster override"),
};

/** Further kinds that decide about placement, with the pages of their objects. */
const MORE: [slug: string, text: string][] = [
  ["policy.karmada.io~v1alpha1~federatedresourcequotas", msg("Quotas over clusters")],
  ["policy.karmada.io~v1alpha1~clustertaintpolicies", msg("Taint policies")],
  ["config.karmada.io~v1alpha1~resourceinterpretercustomizations", msg("Interpreter rules")],
  ["config.karmada.io~v1alpha1~resourceinterpreterwebhookconfigurations", msg("Interpreter webhooks")],
  ["remedy.karmada.io~v1alpha1~remedies", msg("Remedies")],
  ["autoscaling.karmada.io~v1alpha1~federatedhpas", msg("Autoscalers over clusters")],
];

export default function Policies() {
  const { namespace } = usePrefs();
  const [kind, setKind] = useUrlState("kind", "PropagationPolicy");
  const [filter, setFilter] = useUrlState("q", "");
  const [, navigate] = useLocation();
  const resource = POLICIES.find((one) => one.kind === kind) ?? POLICIES[0]!;
  const live = useLive({ path: pathOf(resource, namespace) });
  const propagates = resource.kind.endsWith("PropagationPolicy");
  const summary = useBindingSummary(namespace);
  const held = (policy: KObject) => summary.data?.policies[policyKey({ kind: resource.kind, ...policy.metadata })] ?? 0;
  const rows = filter ? live.items.filter((one) => JSON.stringify([one.metadata.name, one.spec?.resourceSelectors]).toLowerCase().includes(filter.toLowerCase())) : live.items;
  const columns: TableColumn<KObject>[] = [
    { id: "name", title: t("Name"), width: "minmax(150px, 1fr)", cell: (one) => one.metadata.name, sort: (one) => one.metadata.name },
    ...(resource.namespaced ? [{ id: "namespace", title: t("Namespace"), width: "minmax(100px, 0.6fr)", cell: (one: KObject) => one.metadata.namespace, sort: (one: KObject) => one.metadata.namespace ?? "" }] : []),
    { id: "selects", title: t("Selects"), width: "minmax(220px, 2.4fr)", cell: (one) => <span title={selectorsText(one)}>{selectorsText(one)}</span> },
    { id: "placement", title: propagates ? t("Placement") : t("Target clusters"), width: "minmax(220px, 2fr)", cell: (one) => <span title={placementText(one)}>{placementText(one)}</span> },
    ...(propagates
      ? [
          { id: "priority", title: t("Priority"), width: "84px", numeric: true, cell: (one: KObject) => one.spec?.priority ?? 0, sort: (one: KObject) => one.spec?.priority ?? 0 },
          { id: "holds", title: t("Objects"), width: "92px", numeric: true, cell: (one: KObject) => (!summary.data ? <span className="muted">–</span> : held(one) > 0 ? <Badge tone="info" plain>{held(one).toLocaleString()}</Badge> : <span className="muted">{t("unused")}</span>), sort: held },
        ]
      : []),
    { id: "age", title: t("Age"), width: "70px", cell: (one) => <Age at={one.metadata.creationTimestamp} />, sort: (one) => -Date.parse(one.metadata.creationTimestamp ?? "") },
  ];
  return (
    <>
      <PageHead title={t("Policies")}>
        <Link className="btn primary" href={`/policies/new/${resource.kind}`}>{t("New policy")}</Link>
      </PageHead>
      <Stale show={live.stale} />
      <div className="toolbar">
        <Segmented label={t("Kind")} value={resource.kind} onChange={setKind} options={POLICIES.map((one) => ({ id: one.kind, text: t(TITLES[one.kind] ?? one.kind) }))} />
        <input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by name or selector")} value={filter} onChange={(event) => setFilter(event.target.value)} />
        <span className="grow" />
        <Menu label={t("More kinds of policies")} items={MORE.map(([slug, text]) => ({ text: t(text), icon: "policy" as const, onSelect: () => navigate(`/resources/${slug}`) }))} />
      </div>
      <DataTable
        label={t("Policies")}
        live={live}
        rows={rows}
        columns={columns}
        rowKey={(one) => `${one.metadata.namespace}/${one.metadata.name}`}
        href={(one) => `/resources/${slugOf(resource)}/${one.metadata.namespace ? `${one.metadata.namespace}/` : ""}${one.metadata.name}`}
        filtered={filter !== ""}
        empty={<Empty title={t("No policies of this kind")} icon="policy"><p>{propagates ? t("A propagation policy selects objects and the clusters to which they are propagated.") : t("An override policy changes the objects of selected clusters.")}</p><Link className="btn" href={`/policies/new/${resource.kind}`}>{t("New policy")}</Link></Empty>}
      />
    </>
  );
}
