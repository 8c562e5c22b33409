//! What the webhooks change and refuse, case by case.
