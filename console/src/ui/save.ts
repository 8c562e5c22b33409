// Files that the page makes for the user.

export const saveText = (name: string, text: string, type: string) => saveBlob(name, new Blob([text], { type }));

export function saveBlob(name: string, blob: Blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
}

/** One JSON document in each line. */
export const saveLines = (name: string, entries: unknown[]) => saveText(name, entries.map((entry) => JSON.stringify(entry)).join("\n"), "application/x-ndjson");
