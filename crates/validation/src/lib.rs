//! Karmada's kinds as this server serves them: schemas, defaults and rules, without looking anything up.
