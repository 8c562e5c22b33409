// The instances and clusters that a search reads, and why some cannot be read.

import { MANAGER, useManager } from "../../api/manager";
import { t } from "../../i18n";
import { Badge, Button, Dialog, Empty, Loading, Problem } from "../../ui/parts";

interface Source {
  instance: string;
  cluster: string;
  /** `cache` or `live`. */
  reads: string;
  available: boolean;
  message: string;
}

export function SearchSources({ onClose }: { onClose: () => void }) {
  const list = useManager<{ sources?: Source[] }>(`${MANAGER}/search/sources`);
  const sources = list.data?.sources ?? [];
  return (
    <Dialog wide title={t("Sources of the search")} onClose={onClose} footer={<Button onClick={onClose}>{t("Close")}</Button>}>
      {list.isPending ? <Loading /> : list.error ? <Problem error={list.error} retry={() => void list.refetch()} /> : sources.length === 0 ? <Empty title={t("No instances yet")} icon="search" /> : (
        <table className="simple">
          <thead><tr><th>{t("Instance")}</th><th>{t("Cluster")}</th><th>{t("Read from")}</th><th>{t("State")}</th></tr></thead>
          <tbody>
            {sources.map((one) => (
              <tr key={`${one.instance}/${one.cluster}`}>
                <td>{one.instance}</td>
                <td>{one.cluster || "–"}</td>
                <td>{one.reads === "cache" ? t("the cache of the instance") : t("the cluster itself, on request")}</td>
                <td><Badge tone={one.available ? "ok" : "bad"}>{one.available ? t("available") : t("not available")}</Badge>{!one.available && one.message && <div className="small muted">{one.message}</div>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Dialog>
  );
}
