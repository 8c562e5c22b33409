// Translations: the English text is the key, so that a missing entry shows English.

export type Language = "en" | "zh";

let dictionary: Record<string, string> = {};
let current: Language = "en";

export async function setLanguage(language: Language) {
  dictionary = language === "zh" ? (await import("./zh")).default : {};
  current = language;
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
}

export const language = () => current;

/** The text in the language of the user; `{name}` is replaced by the variable of that name. */
export function t(text: string, variables?: Record<string, string | number>): string {
  const found = dictionary[text] ?? text;
  return variables ? found.replace(/\{(\w+)\}/g, (all, name) => String(variables[name] ?? all)) : found;
}

/** Marks a text that is translated where it is shown, so that a test finds it. */
export const msg = <T extends string>(text: T): T => text;
