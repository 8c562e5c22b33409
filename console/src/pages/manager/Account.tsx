// The account of the signed-in user at a manager: roles, permissions and password.

import { useState } from "react";
import { send } from "../../api/client";
import { MANAGER, useManager } from "../../api/manager";
import { t } from "../../i18n";
import { attempt, Button, Card, Field, KeyValues, Loading, Problem } from "../../ui/parts";

interface Caller {
  name: string;
  groups?: string[];
  platformRoles?: string[];
}

const PASSWORD_MIN = 10;

export function AccountCard() {
  const caller = useManager<Caller>(`${MANAGER}/whoami`);
  return (
    <Card title={t("Your account")}>
      {caller.isPending ? <Loading /> : caller.error ? <Problem error={caller.error} retry={() => void caller.refetch()} /> : (
        <div className="stack loose">
          <KeyValues entries={[
            [t("User"), caller.data.name],
            [t("Groups"), (caller.data.groups ?? []).join(", ")],
            [t("Roles on the platform"), (caller.data.platformRoles ?? []).join(", ") || t("none")],
          ]} />
          <ChangePassword />
        </div>
      )}
    </Card>
  );
}

/** For accounts of the manager; users of an identity provider change theirs there. */
function ChangePassword() {
  const [form, setForm] = useState({ before: "", after: "", again: "" });
  const [isOpen, setOpen] = useState(false);
  const isShort = form.after !== "" && form.after.length < PASSWORD_MIN;
  const differs = form.again !== "" && form.again !== form.after;
  const valid = form.before !== "" && form.after.length >= PASSWORD_MIN && form.after === form.again;
  const save = async () => {
    if (!(await attempt(t("Your password is changed"), () => send("POST", `${MANAGER}/sessions:changePassword`, { oldPassword: form.before, newPassword: form.after })))) return;
    setForm({ before: "", after: "", again: "" });
    setOpen(false);
  };
  if (!isOpen) return <div><Button icon="lock" onClick={() => setOpen(true)}>{t("Change the password…")}</Button></div>;
  const field = (key: keyof typeof form, label: string, autoComplete: string, problem?: string) => (
    <Field label={label} problem={problem}>{(id) => <input id={id} className="input" type="password" autoComplete={autoComplete} value={form[key]} onChange={(event) => setForm({ ...form, [key]: event.target.value })} />}</Field>
  );
  return (
    <form className="stack" onSubmit={(event) => { event.preventDefault(); if (valid) void save(); }}>
      <div className="grid-s">
        {field("before", t("Current password"), "current-password")}
        {field("after", t("New password"), "new-password", isShort ? t("At least {count} characters.", { count: PASSWORD_MIN }) : "")}
        {field("again", t("New password again"), "new-password", differs ? t("The passwords do not match.") : "")}
      </div>
      <div className="row"><Button kind="primary" type="submit" disabled={!valid}>{t("Save")}</Button><Button kind="ghost" onClick={() => setOpen(false)}>{t("Cancel")}</Button></div>
    </form>
  );
}
