//! The text of a plan.

use std::fmt::Write;

use crate::import::{ImportPlan, ImportedCluster};
use crate::reach::Reach;

/// Unsupported objects that are listed; further ones are only counted.
const UNSUPPORTED_MAX: usize = 20;

/// Describes an import plan; `reach` is in the order of the clusters.
pub fn import_report(plan: &ImportPlan, reach: &[Reach]) -> String {
    let mut text = format!("Objects to take over: {}\n", plan.objects.len());
    let counts = plan.counts();
    let width = counts.keys().map(String::len).max().unwrap_or_default();
    for (resource, count) in &counts {
        let _ = writeln!(text, "  {resource:width$}  {count}");
    }
    left_out(&mut text, plan);
    clusters(&mut text, &plan.clusters, reach);
    if !plan.unsupported.is_empty() {
        let _ = writeln!(text, "\nNot supported: {}", plan.unsupported.len());
        for unsupported in plan.unsupported.iter().take(UNSUPPORTED_MAX) {
            let _ = writeln!(text, "  {}: {}", unsupported.what, unsupported.reason);
        }
        if let Some(more) = plan.unsupported.len().checked_sub(UNSUPPORTED_MAX).filter(|more| *more > 0) {
            let _ = writeln!(text, "  and {more} more");
        }
    }
    if !plan.warnings.is_empty() {
        text.push_str("\nWarnings:\n");
        for warning in &plan.warnings {
            let _ = writeln!(text, "  {warning}");
        }
    }
    text
}

fn left_out(text: &mut String, plan: &ImportPlan) {
    if plan.left_out.is_empty() {
        return;
    }
    text.push_str("\nLeft out:\n");
    let width = plan.left_out.keys().map(|(kind, _)| kind.len()).max().unwrap_or_default();
    for ((kind, reason), count) in &plan.left_out {
        let _ = writeln!(text, "  {kind:width$}  {count:>5}  {}", reason.reason());
    }
}

fn clusters(text: &mut String, clusters: &[ImportedCluster], reach: &[Reach]) {
    let _ = writeln!(text, "\nClusters: {}", clusters.len());
    let width = clusters.iter().map(|cluster| cluster.name.len()).max().unwrap_or_default();
    for (cluster, reach) in clusters.iter().zip(reach) {
        let (mode, state) = match reach {
            Reach::Answers(version) => ("Push", format!("{} answers ({version})", cluster.spec.api_endpoint)),
            Reach::Fails(reason) => ("Push", format!("{} DOES NOT ANSWER: {reason}", cluster.spec.api_endpoint)),
            Reach::ByAgent => {
                ("Pull", "its agent connects when the new control plane has the address of the old one".to_owned())
            }
        };
        let _ = writeln!(text, "  {:width$}  {mode}  {state}", cluster.name);
    }
}
