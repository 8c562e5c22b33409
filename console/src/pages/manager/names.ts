// Names that the manager accepts.

export const isInstanceName = (name: string) => /^[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?$/.test(name);

export const isClusterName = (name: string) => /^[a-z0-9]([-a-z0-9]{0,46}[a-z0-9])?$/.test(name);

export const isObjectName = (name: string) => /^[a-z0-9]([-a-z0-9.]{0,200}[a-z0-9])?$/.test(name);
