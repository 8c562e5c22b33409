// An object as YAML: read, edit, check, save. A failed save keeps the text; a conflict shows the difference.

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { ApiError, FIELD_MANAGER, query, send } from "../api/client";
import { pathOf, type Resource } from "../api/resources";
import type { KObject } from "../api/types";
import { t } from "../i18n";
import { Button, Loading, toast } from "../ui/parts";
import { YamlDifference, YamlEditor } from "./YamlEditor";

export async function toYaml(object: unknown): Promise<string> {
  const { stringify } = await import("yaml");
  return stringify(object, { lineWidth: 120, aliasDuplicateObjects: false });
}

export function withoutNoise(object: KObject): KObject {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}

export function useYaml(object: unknown): string | undefined {
  return useQuery({ queryKey: ["yaml", object], queryFn: () => toYaml(object), staleTime: Number.POSITIVE_INFINITY, gcTime: 1_000, placeholderData: (before) => before }).data;
}

export function ObjectYaml({ resource, object, readOnly }: { resource: Resource; object: KObject; readOnly?: boolean }) {
  const identified = { apiVersion: resource.group ? `${resource.group}/${resource.version}` : resource.version, kind: resource.kind, ...withoutNoise(object) };
  const shown = useYaml(identified);
  const [draft, setDraft] = useState<string>();
  const [problem, setProblem] = useState<ApiError | Error>();
  const [busy, setBusy] = useState(false);
  const write = async (dryRun: boolean) => {
    setBusy(true);
    setProblem(undefined);
    try {
      const { parse } = await import("yaml");
      const edited = parse(draft ?? "") as KObject;
      const options = query({ fieldManager: FIELD_MANAGER, fieldValidation: "Strict", dryRun: dryRun ? "All" : undefined });
      await send("PUT", pathOf(resource, object.metadata.namespace, object.metadata.name) + options, edited);
      toast(dryRun ? t("The control plane would accept this") : t("Saved"));
      if (!dryRun) setDraft(undefined);
    } catch (error) {
      setProblem(error as Error);
    }
    setBusy(false);
  };
  if (shown === undefined) return <Loading />;
  const conflict = problem instanceof ApiError && problem.code === 409;
  return (
    <div className="stack">
      {!readOnly && (
        <div className="toolbar">
          {draft === undefined ? (
            <Button icon="policy" onClick={() => setDraft(shown)}>{t("Edit")}</Button>
          ) : (
            <>
              <Button kind="primary" disabled={busy || draft === shown} onClick={() => void write(false)}>{t("Save")}</Button>
              <Button disabled={busy} onClick={() => void write(true)}>{t("Check")}</Button>
              <Button kind="ghost" onClick={() => { setDraft(undefined); setProblem(undefined); }}>{t("Discard")}</Button>
            </>
          )}
        </div>
      )}
      {problem && <div className="banner bad" role="alert">{problem.message}</div>}
      {conflict && draft !== undefined && (
        <>
          <p>{t("The object was changed in the meantime. The left side shows the current object, the right side your text. To save your text, set its resourceVersion to the current one.")}</p>
          <YamlDifference before={shown} after={draft} labels={[t("Control plane"), t("Your text")]} />
        </>
      )}
      {draft === undefined ? <YamlEditor key="read" text={shown} readOnly /> : <YamlEditor key="edit" text={draft} onChange={setDraft} />}
    </div>
  );
}
