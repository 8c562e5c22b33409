//! A report for people: the outermost trouble first, and below each finding why and what to type.

use karmadactl::console::Console;

use super::{Layer, Report, Severity};

pub fn print(console: &Console, report: &Report) -> std::io::Result<()> {
    console.line(format!("Examined {}, from the outside in:", report.examined))?;
    for layer in &report.layers {
        let findings: Vec<_> = report.findings.iter().filter(|finding| finding.layer == *layer).collect();
        let sick = findings.iter().any(|finding| finding.severity == Severity::Broken);
        console.line(format!("  {} {}", if sick { "✗" } else { "✓" }, title(*layer)))?;
        for finding in findings {
            let mark = if finding.severity == Severity::Note { "note: " } else { "" };
            console.line(format!("      {mark}{} {}", finding.subject, finding.what))?;
            console.line(format!("        why:  {}", finding.why))?;
            console.line(format!("        try:  {}", finding.command))?;
        }
    }
    let broken = report.findings.iter().filter(|finding| finding.severity == Severity::Broken).count();
    match broken {
        0 => console.line("Everything looked at is well."),
        1 => console.line("1 thing is wrong."),
        count => {
            console.line(format!("{count} things are wrong; what is further out often causes what is further in."))
        }
    }
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
