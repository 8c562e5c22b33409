//! The walk of a workload on the control plane: template to binding, binding to works, works back to the template.
