// Every kind the control plane serves, by group.

import { Link } from "wouter";
import { type Resource, slugOf, useDiscovery } from "../../api/resources";
import { useUrlState } from "../../app/urlState";
import { t } from "../../i18n";
import { Card, Empty, Loading, PageHead, Problem } from "../../ui/parts";

export default function Kinds() {
  const discovery = useDiscovery();
  const [filter, setFilter] = useUrlState("q", "");
  const needle = filter.toLowerCase();
  const listed = (discovery.data ?? []).filter((one) => one.verbs.includes("list") && `${one.kind} ${one.plural} ${one.group} ${one.shortNames.join(" ")}`.toLowerCase().includes(needle));
  const groups = Map.groupBy(listed, (one: Resource) => one.group);
  return (
    <>
      <PageHead title={t("All kinds")} />
      <div className="toolbar"><input className="input" data-filter type="search" aria-label={t("Filter")} placeholder={t("Filter by kind or group")} value={filter} onChange={(event) => setFilter(event.target.value)} /></div>
      {discovery.isPending ? <Loading /> : discovery.error ? <section className="card"><Problem error={discovery.error} retry={() => void discovery.refetch()} /></section> : listed.length === 0 ? <section className="card"><Empty title={t("No row matches the filter")} icon="search" /></section> : (
        <div className="masonry">
          {[...groups].sort(([a], [b]) => a.localeCompare(b)).map(([group, resources]) => (
            <Card key={group} title={group || "core"}>
              <ul className="stack tight">
                {resources.sort((a, b) => a.kind.localeCompare(b.kind)).map((one) => (
                  <li className="row between" key={one.plural}>
                    <Link className="ellipsis" title={one.kind} href={`/resources/${slugOf(one)}`}>{one.kind}</Link>
                    {!one.namespaced && <span className="small muted nowrap">{t("cluster-scoped")}</span>}
                  </li>
                ))}
              </ul>
            </Card>
          ))}
        </div>
      )}
    </>
  );
}
