// Why an object is where it is: the verdict, the graph of stages, and every stage with its reasons.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { type ApiError, getJson, query } from "../../api/client";
import { apiVersionOf, type Resource } from "../../api/resources";
import type { KObject, Stage, Why } from "../../api/types";
import { msg, t } from "../../i18n";
import { Age, Badge, Button, Card, Command, Loading, Problem, type Tone } from "../../ui/parts";
import { WhyGraph } from "./WhyGraph";
import "./why.css";

/** Answers for former versions of an object are forgotten after this time. */
const VERSION_KEPT_MS = 10_000;

const TONES: Record<string, Tone> = { [msg("Done")]: "ok", [msg("Waiting")]: "info", [msg("Failed")]: "bad", [msg("Ahead")]: "" };
export const toneOfStage = (state: string): Tone => TONES[state] ?? "warn";

const TITLES: Record<string, string> = {
  template: msg("Template"), policy: msg("Policy"), binding: msg("Binding"), scheduling: msg("Scheduling"), overrides: msg("Overrides"), failover: msg("Failover"), work: msg("Works"), members: msg("Members"), status: msg("Status"), dependencies: msg("Dependencies"), quota: msg("Quota"),
};
export const titleOfStage = (name: string) => t(TITLES[name] ?? name);

export function WhyView({ resource, object, binding }: { resource: Resource; object: KObject; binding?: KObject }) {
  const { name, namespace } = object.metadata;
  const why = useQuery<Why, ApiError>({
    // The versions make the answer follow the objects.
    queryKey: ["why", resource.kind, namespace, name, object.metadata.resourceVersion, binding?.metadata.resourceVersion],
    queryFn: () => getJson(`/flotilla/v1alpha1/why${query({ apiVersion: apiVersionOf(resource), kind: resource.kind, namespace, name })}`),
    placeholderData: (before) => before,
    gcTime: VERSION_KEPT_MS,
  });
  const [chosen, setChosen] = useState<string>();
  if (why.isPending) return <Loading />;
  if (why.error) return <section className="card"><Problem error={why.error} retry={() => void why.refetch()} /></section>;
  const { stages, verdict, nextStep, state } = why.data;
  const stop = stages.find((stage) => stage.state === "Failed" || stage.state === "Waiting");
  const shown = stages.find((stage) => stage.name === chosen) ?? stop ?? stages[0];
  return (
    <div className="stack loose">
      <section className={`card verdict ${toneOfStage(state)}`}>
        <div className="grow">
          <h2>{capital(verdict)}</h2>
          {nextStep && <p><b>{t("Next step")}:</b> {withCode(capital(nextStep))}</p>}
        </div>
        <Button icon="refresh" label={t("Refresh")} onClick={() => void why.refetch()} />
      </section>
      <Card title={t("From template to members")} flush>
        <WhyGraph why={why.data} binding={binding} chosen={shown?.name ?? ""} onChoose={setChosen} />
      </Card>
      <div className="why-details">
        <ol className="why-steps" aria-label={t("Stages")}>
          {stages.map((stage) => (
            <li key={stage.name}>
              <button type="button" aria-pressed={stage.name === shown?.name} onClick={() => setChosen(stage.name)}>
                <span className={`dot ${toneOfStage(stage.state)}`} />
                <span className="grow">{titleOfStage(stage.name)}</span>
                <span className="small muted">{textOfState(stage.state)}</span>
              </button>
            </li>
          ))}
        </ol>
        {shown && <StageCard stage={shown} />}
      </div>
      <Command text={`flotilla why ${resource.kind.toLowerCase()}/${name}${namespace ? ` -n ${namespace}` : ""}`} />
    </div>
  );
}

/** A stage that comes after the one that stopped has not run. */
const textOfState = (state: string) => (state === "Ahead" ? t("Not reached") : t(state));

/** Commands in a text of the server are between backticks. */
const withCode = (text: string) => text.split("`").map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part));

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

function StageCard({ stage }: { stage: Stage }) {
  return (
    <Card title={titleOfStage(stage.name)} actions={<><span className="muted small">{stage.since && <Age at={stage.since} ago />}</span><Badge tone={toneOfStage(stage.state)}>{textOfState(stage.state)}</Badge></>}>
      <div className="stack">
        <p>{withCode(capital(stage.summary))}</p>
        {stage.nextStep && <div className="banner"><span>{withCode(capital(stage.nextStep))}</span></div>}
        {stage.data?.attempts?.length > 0 ? <Scheduling data={stage.data} /> : null}
        {stage.details && stage.details.length > 0 && (
          <ul className="reasons">
            {stage.details.map((detail, index) => <li key={index}>{detail}</li>)}
          </ul>
        )}
      </div>
    </Card>
  );
}

/** The decision of the scheduler as a table: one row for each cluster it considered. */
function Scheduling({ data }: { data: any }) {
  const attempt = data.attempts.at(-1);
  const result = new Map<string, number>((data.clusters ?? []).map((target: any) => [target.name, target.replicas]));
  const plugins: string[] = [...new Set<string>((attempt.candidates ?? []).flatMap((one: any) => (one.scores ?? []).map((score: any) => score.plugin)))];
  return (
    <div className="hscroll" tabIndex={0} role="group">
      <table className="simple">
        <thead><tr><th>{t("Cluster")}</th>{plugins.map((plugin) => <th key={plugin}>{plugin}</th>)}<th>{t("Available replicas")}</th><th>{t("Assigned")}</th></tr></thead>
        <tbody>
          {(attempt.candidates ?? []).map((one: any) => (
            <tr key={one.cluster}>
              <td>{one.cluster}</td>
              {plugins.map((plugin) => <td key={plugin}>{one.scores?.find((score: any) => score.plugin === plugin)?.score ?? "–"}</td>)}
              <td>{one.available ?? "–"}</td>
              <td>{result.has(one.cluster) ? <b>{result.get(one.cluster) ?? t("yes")}</b> : "–"}</td>
            </tr>
          ))}
          {(attempt.leftOut ?? []).map((one: any) => (
            <tr key={one.cluster ?? one.name}>
              <td>{one.cluster ?? one.name}</td>
              <td colSpan={plugins.length + 2}><Badge tone="bad">{t("filtered out")}</Badge> {one.reason ?? one.message ?? one.plugin}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
