// The difference between the template and the object in one cluster.

import { useQuery } from "@tanstack/react-query";
import { type ApiError, getJson } from "../../api/client";
import { memberPath, pathOf, type Resource } from "../../api/resources";
import type { KObject } from "../../api/types";
import { useUrlState } from "../../app/urlState";
import { useYaml } from "../../editor/ObjectYaml";
import { YamlDifference } from "../../editor/YamlEditor";
import { t } from "../../i18n";
import { perCluster } from "../../model/binding";
import { Badge, Card, Empty, Loading, Problem, Segmented } from "../../ui/parts";

/** The parts a user writes: what the clusters fill in by themselves is left out. */
function comparable(object: KObject): unknown {
  const { labels, annotations } = object.metadata;
  const own = (entries?: Record<string, string>) => Object.fromEntries(Object.entries(entries ?? {}).filter(([key]) => !/karmada\.io\/|kubernetes\.io\/last-applied|deployment\.kubernetes\.io\/revision/.test(key)).sort());
  const rest = Object.fromEntries(Object.entries(object).filter(([key]) => !["apiVersion", "kind", "metadata", "status", "cluster"].includes(key)));
  return { metadata: { name: object.metadata.name, namespace: object.metadata.namespace, labels: own(labels), annotations: own(annotations) }, ...rest };
}

export function PerClusterView({ resource, workload, binding }: { resource: Resource; workload: KObject; binding?: KObject }) {
  const clusters = perCluster(binding);
  const [chosen, setChosen] = useUrlState("cluster", clusters[0]?.name ?? "");
  const { name, namespace } = workload.metadata;
  const member = useQuery<KObject, ApiError>({
    queryKey: ["member", chosen, resource.plural, namespace, name, binding?.metadata.resourceVersion],
    queryFn: () => getJson(memberPath(chosen, pathOf(resource, namespace, name))),
    enabled: chosen !== "",
  });
  if (clusters.length === 0) return <section className="card"><Empty title={t("Not in any cluster")} icon="cluster"><p>{t("The Why tab shows the step that failed.")}</p></Empty></section>;
  return (
    <div className="stack">
      <div className="toolbar">
        <Segmented label={t("Cluster")} value={chosen} onChange={setChosen} options={clusters.map((one) => ({ id: one.name, text: one.name }))} />
        {clusters.filter((one) => one.name === chosen).map((one) => <Badge key={one.name} tone={one.tone}>{t(one.state)}</Badge>)}
      </div>
      <Card>
        {member.isPending ? <Loading /> : member.error ? <Problem error={member.error} retry={() => void member.refetch()} /> : <Difference template={workload} member={member.data} cluster={chosen} />}
      </Card>
    </div>
  );
}

function Difference({ template, member, cluster }: { template: KObject; member: KObject; cluster: string }) {
  const before = useYaml(comparable(template));
  const after = useYaml(comparable(member));
  if (before === undefined || after === undefined) return <Loading />;
  return <YamlDifference before={before} after={after} labels={[t("Template"), cluster]} />;
}
