// Explains why a request is refused or allowed: the decision of the control plane, and the roles that would allow it.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useSearch } from "wouter";
import { type ApiError, getJson, send } from "../../api/client";
import { pathOf } from "../../api/resources";
import type { KObject } from "../../api/types";
import { usePrefs } from "../../app/prefs";
import { t } from "../../i18n";
import { Badge, Button, Card, Empty, Field, Loading, Problem } from "../../ui/parts";
import { BindDialog } from "./dialogs";
import { allows, type Attributes, CLUSTER_ROLES, ROLES, RBAC } from "./rbac";

interface Question extends Attributes {
  /** Empty asks for the signed-in user. */
  user: string;
  groups: string;
}

interface Answer {
  allowed: boolean;
  reason?: string;
  evaluationError?: string;
}

const API = "/apis/authorization.k8s.io/v1";

/** Everyone may ask about their own rights; those of others need permission. */
async function ask({ user, groups, ...attributes }: Question): Promise<Answer> {
  const isSelf = user === "" && groups === "";
  const kind = isSelf ? "SelfSubjectAccessReview" : "SubjectAccessReview";
  const [resource = "", subresource] = attributes.resource.split("/");
  const subject = isSelf ? {} : { user, groups: groups.split(",").map((one) => one.trim()).filter(Boolean) };
  const spec = { ...subject, resourceAttributes: { ...attributes, resource, subresource } };
  const review = await send<KObject>("POST", `${API}/${kind.toLowerCase()}s`, { apiVersion: "authorization.k8s.io/v1", kind, spec });
  return review.status;
}

/** The question in the address: a refusal links to it. */
function questionOf(search: string, namespace: string): Question {
  const given = new URLSearchParams(search);
  const of = (key: string, initial = "") => given.get(key) ?? initial;
  const isGiven = given.has("resource");
  return { user: of("user"), groups: of("groups"), verb: of("verb", "get"), resource: of("resource", "deployments"), group: of("group", isGiven ? "" : "apps"), namespace: of("namespace", isGiven ? "" : namespace || "default"), name: of("name") };
}

export function Check() {
  const { namespace } = usePrefs();
  const search = useSearch();
  const [form, setForm] = useState(() => questionOf(search, namespace));
  const [asked, setAsked] = useState<Question | undefined>(() => (new URLSearchParams(search).has("resource") ? form : undefined));
  const answer = useQuery<Answer, ApiError>({ queryKey: ["access-check", asked], queryFn: () => ask(asked!), enabled: asked !== undefined, retry: false });
  const fields = [["user", t("User (default: you)")], ["groups", t("Groups, separated by commas")], ["verb", t("Verb")], ["resource", t("Resource")], ["group", t("API group")], ["namespace", t("Namespace")], ["name", t("Name")]] as const;
  return (
    <div className="grid2">
      <Card title={t("Check whether a request is allowed")}>
        <form className="stack" onSubmit={(event) => { event.preventDefault(); setAsked(form); }}>
          <div className="grid-s">{fields.map(([key, label]) => <Field key={key} label={label}>{(id) => <input id={id} className="input" value={form[key]} onChange={(event) => setForm({ ...form, [key]: event.target.value.trim() })} />}</Field>)}</div>
          <div><Button kind="primary" type="submit" disabled={form.verb === "" || form.resource === ""}>{t("Check")}</Button></div>
        </form>
      </Card>
      <div className="stack">
        <Card title={t("Answer")}>
          {asked === undefined ? <Empty title={t("Not checked yet")} icon="access" /> : answer.isPending ? <Loading /> : answer.error ? <Problem error={answer.error} /> : <Verdict question={asked} answer={answer.data} />}
        </Card>
        {asked && answer.data && !answer.data.allowed && <Remedies question={asked} />}
      </div>
    </div>
  );
}

function Verdict({ question, answer }: { question: Question; answer: Answer }) {
  const { user, groups, verb, resource, group, namespace, name } = question;
  const who = user || (groups && t("members of {groups}", { groups })) || t("You");
  const what = `${verb} ${resource}${group ? `.${group}` : ""}${name ? ` ${name}` : ""}`;
  return (
    <div className="stack">
      <div><Badge tone={answer.allowed ? "ok" : "bad"}>{answer.allowed ? t("allowed") : t("not allowed")}</Badge></div>
      <p>{who}: <code>{what}</code> · {namespace || t("all namespaces")}</p>
      {answer.reason && <p className="small" style={{ overflowWrap: "anywhere" }}>{answer.reason}</p>}
      {!answer.allowed && !answer.reason && <p className="small">{t("No binding grants a role with this permission. Requests that no role allows are denied.")}</p>}
      {answer.evaluationError && <p className="small muted">{answer.evaluationError}</p>}
    </div>
  );
}

/** The roles with the right, for those who may read roles; one of them can be bound. */
function Remedies({ question }: { question: Question }) {
  const [binding, setBinding] = useState("");
  const roles = useQuery<KObject[], ApiError>({
    queryKey: ["roles-for", question.namespace],
    queryFn: async () => {
      const paths = [pathOf(CLUSTER_ROLES), ...(question.namespace ? [pathOf(ROLES, question.namespace)] : [])];
      return (await Promise.all(paths.map((path) => getJson<{ items: KObject[] }>(path)))).flatMap((list) => list.items);
    },
    retry: false,
  });
  if (roles.isPending) return <Card title={t("Roles that allow it")}><Loading /></Card>;
  const fitting = (roles.data ?? []).filter((role) => allows(role, question));
  return (
    <Card title={t("Roles that allow it")} flush>
      {roles.error ? <div className="body"><p className="small">{t("You are not allowed to read roles. Show this page to an administrator and ask for a role with this permission.")}</p></div> : fitting.length === 0 ? <Empty title={t("No role allows this")} icon="lock"><p>{t("Create a role with this permission, or add a rule to an existing role.")}</p></Empty> : (
        <div className="hscroll" tabIndex={0} role="group" style={{ maxHeight: 320, overflowY: "auto" }}>
          <table className="simple">
            <tbody>
              {fitting.map((role) => (
                <tr key={role.metadata.uid}>
                  <td><Link href={`/resources/${RBAC}~v1~${role.metadata.namespace ? "roles" : "clusterroles"}/${role.metadata.namespace ? `${role.metadata.namespace}/` : ""}${encodeURIComponent(role.metadata.name)}`}>{role.metadata.name}</Link><div className="small muted">{role.metadata.namespace || t("cluster role")}</div></td>
                  <td className="right">{question.user !== "" && <Button small onClick={() => setBinding(role.metadata.name)}>{t("Bind…")}</Button>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {binding && <BindDialog subject={{ kind: "User", name: question.user }} role={binding} in={question.namespace} onClose={() => setBinding("")} />}
    </Card>
  );
}
