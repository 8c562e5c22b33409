//! The report as text: the layers in order, and below each its findings with reason and command.

use karmadactl::console::Console;

use super::{Finding, Layer, Report, Severity};

pub fn print(console: &Console, report: &Report) -> std::io::Result<()> {
    console.line(format!("Examined {}:", report.examined))?;
    let mut layers: Vec<(Layer, Option<&str>)> = report.layers.iter().map(|layer| (*layer, None)).collect();
    layers.extend(report.unknown.iter().map(|unknown| (unknown.layer, Some(unknown.why.as_str()))));
    layers.sort_by_key(|(layer, _)| *layer);
    for (layer, unknown) in layers {
        let findings: Vec<_> = report.findings.iter().filter(|finding| finding.layer == layer).collect();
        let is_broken = findings.iter().any(|finding| finding.severity == Severity::Broken);
        let mark = match (is_broken, unknown) {
            (true, _) => "✗",
            (false, Some(_)) => "?",
            (false, None) => "✓",
        };
        let unknown = unknown.map(|why| format!(" (not examined: {why})")).unwrap_or_default();
        console.line(format!("  {mark} {}{unknown}", title(layer)))?;
        for finding in findings {
            print_finding(console, finding)?;
        }
    }
    let broken = report.findings.iter().filter(|finding| finding.severity == Severity::Broken).count();
    match (broken, report.unknown.len()) {
        (0, 0) => console.line("No problems found."),
        (0, unknown) => {
            console.line(format!("No problems found in the examined layers; {unknown} could not be examined."))
        }
        (1, _) => console.line("1 problem found."),
        (count, _) => console.line(format!("{count} problems found. Fix the first one first: it may cause others.")),
    }
}

fn print_finding(console: &Console, finding: &Finding) -> std::io::Result<()> {
    let mark = if finding.severity == Severity::Note { "note: " } else { "" };
    console.line(format!("      {mark}{} {}", finding.subject, finding.what))?;
    console.line(format!("        why:  {}", finding.why))?;
    for consequence in &finding.consequences {
        console.line(format!("        also: {consequence}"))?;
    }
    console.line(format!("        try:  {}", finding.command))
}

fn title(layer: Layer) -> &'static str {
    match layer {
        Layer::Host => "host",
        Layer::Machines => "processes and containers",
        Layer::Ports => "ports",
        Layer::ControlPlane => "control plane",
        Layer::Certificates => "certificates",
        Layer::Registrations => "registrations",
        Layer::Members => "members",
        Layer::Workloads => "workloads",
        Layer::Pods => "pods",
        Layer::Connections => "connections to pods",
    }
}
