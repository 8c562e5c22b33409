//! What serves and keeps pods in a member: scheduling, endpoints, autoscaling, disruption budgets, volumes, node lifecycle.
