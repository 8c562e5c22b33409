// Manifests, what they would do, and then the deed.

import { useState } from "react";
import { type Row, useLive } from "../../api/live";
import { CLUSTERS, pathOf, useDiscovery } from "../../api/resources";
import type { ChangePlan, KObject } from "../../api/types";
import { usePrefs } from "../../app/prefs";
import { YamlEditor } from "../../editor/YamlEditor";
import { t } from "../../i18n";
import { Button, Card, Empty, Loading, PageHead, Problem } from "../../ui/parts";
import "../workloads/why.css";
import { applyAll, type Outcome, planOf, readManifests } from "./manifests";
import { Outcomes } from "./Outcomes";
import { PlanView } from "./PlanView";
import { SAMPLES } from "./samples";

const KEPT = "flotilla-console-draft";

const remember = (text: string) => {
  try {
    sessionStorage.setItem(KEPT, text);
  } catch {
    // Without storage the text lasts as long as the page.
  }
};

/** Secrets are not kept in the storage of the browser. */
const kept = () => sessionStorage.getItem(KEPT) ?? "";

export default function Apply() {
  const discovery = useDiscovery();
  const { namespace } = usePrefs();
  const clusters = useLive<Row>({ path: pathOf(CLUSTERS), table: true });
  const [text, setText] = useState(kept);
  const [plan, setPlan] = useState<{ plan: ChangePlan; objects: KObject[] }>();
  const [problem, setProblem] = useState<Error>();
  const [outcomes, setOutcomes] = useState<Outcome[]>();
  const [busy, setBusy] = useState<"" | "plan" | "apply">("");
  const change = (next: string) => {
    setText(next);
    if (!/^kind:\s*Secret/m.test(next)) remember(next);
    setPlan(undefined);
    setOutcomes(undefined);
  };
  const read = () => readManifests(text, discovery.data ?? [], namespace || "default");
  const run = async (step: "plan" | "apply") => {
    setBusy(step);
    setProblem(undefined);
    setOutcomes(undefined);
    try {
      const objects = await read();
      if (objects.length === 0) throw new Error(t("The text contains no object"));
      if (step === "plan") setPlan({ plan: await planOf(objects), objects });
      else await applyAll(objects, discovery.data ?? [], setOutcomes);
    } catch (error) {
      setProblem(error as Error);
      setPlan(undefined);
    }
    setBusy("");
  };
  const names = clusters.items.map((cluster) => cluster.metadata.name);
  return (
    <>
      <PageHead title={t("Plan and apply")}>
        <select className="select" style={{ width: "auto" }} aria-label={t("Start from an example")} value="" onChange={(event) => change(SAMPLES.find((sample) => sample.id === event.target.value)?.manifest(names) ?? text)}>
          <option value="" disabled>{t("Start from an example")}</option>
          {SAMPLES.map((sample) => <option key={sample.id} value={sample.id}>{t(sample.text)}</option>)}
        </select>
        <Button onClick={() => void run("plan")} disabled={!text.trim() || busy !== "" || !discovery.data}>{busy === "plan" ? t("Planning…") : t("Plan")}</Button>
        <Button kind="primary" icon="apply" onClick={() => void run("apply")} disabled={!text.trim() || busy !== "" || !discovery.data || !plan}>{busy === "apply" ? t("Applying…") : t("Apply")}</Button>
      </PageHead>
      <div className="grid2">
        <Card title={t("Manifests")} flush><YamlEditor text={text} onChange={change} label={t("Manifests")} height="calc(100vh - 250px)" /></Card>
        <div className="stack">
          {problem ? <section className="card"><Problem error={problem} /></section> : outcomes ? <Outcomes outcomes={outcomes} onChange={setOutcomes} /> : plan ? <PlanView plan={plan.plan} /> : (
            <section className="card">{busy ? <Loading /> : <Empty title={t("No plan yet")} icon="apply"><p>{t("The plan shows, for every cluster, which objects would be created, changed or removed, with their replicas. Nothing is changed until you apply.")}</p></Empty>}</section>
          )}
        </div>
      </div>
    </>
  );
}
