//! The report as a table for the terminal and as Markdown.

use std::fmt::Write;

use crate::report::Report;
use crate::report::rows::{Growth, Row, Target, growth, rows};
use crate::scenario::watch::{EVENTS, WATCHERS};

const HEADER: [&str; 6] = ["", "flotilla", "kube-apiserver + etcd", "times better", "target", ""];

/// For the terminal.
pub fn table(report: &Report) -> String {
    let mut lines = vec![HEADER.map(str::to_owned).to_vec()];
    lines.extend(rows(report).iter().map(cells));
    let mut text = aligned(&lines);
    let grown = growth(report);
    if !grown.is_empty() {
        text.push_str("\nbeside so many objects: p50 / p99 in ms, server CPU in µs\n");
        text.push_str(&aligned(&growth_cells(&grown)));
    }
    for refusal in report.refusals() {
        let _ = writeln!(text, "NOT VALID: {refusal}");
    }
    let _ = writeln!(text, "\n{}", summary(report));
    text
}

pub fn markdown(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = String::from("# Benchmark\n\n");
    let _ = writeln!(
        text,
        "{}, {} cores of {}, {} GiB, Linux {}, data on {}; load before the run {:.2}. The run took {:.0} s{}.\n",
        machine.time,
        machine.cores,
        machine.processor,
        machine.memory_gib,
        machine.kernel,
        machine.file_system,
        machine.load_before,
        report.took_seconds,
        if report.quick { " (--quick: a rough picture)" } else { "" },
    );
    let _ = writeln!(
        text,
        "{} against {}. {} clients over {} with client certificates; ConfigMaps with 1 KiB of data; watch: {EVENTS} events \
         to {WATCHERS} watchers. Servers and load generator share the processors and the disk; both sides take turns, and every write \
         is on disk before it is answered.\n",
        report.versions.first().map_or("flotilla", |v| v),
        if report.versions.len() > 1 { report.versions[1..].join(", ") } else { "nothing".to_owned() },
        report.clients,
        report.protocol,
    );
    let _ = writeln!(text, "| {} |", HEADER.join(" | "));
    text.push_str("|---|---:|---:|---:|---:|---|\n");
    for row in rows(report) {
        let _ = writeln!(text, "| {} |", cells(&row).join(" | "));
    }
    markdown_growth(report, &mut text);
    for refusal in report.refusals() {
        let _ = writeln!(text, "\n**Not valid:** {refusal}");
    }
    let _ = writeln!(text, "\n{}", summary(report));
    text
}

fn markdown_growth(report: &Report, text: &mut String) {
    let grown = growth(report);
    let lines = growth_cells(&grown);
    let Some((header, lines)) = lines.split_first().filter(|_| !grown.is_empty()) else { return };
    text.push_str(
        "\n## Beside so many objects\n\np50 / p99 in milliseconds by four clients; server CPU per request in µs.\n\n",
    );
    let _ = writeln!(text, "| {} |\n|{}", header.join(" | "), "---|".repeat(header.len()));
    for line in lines {
        let _ = writeln!(text, "| {} |", line.join(" | "));
    }
}

fn summary(report: &Report) -> String {
    let verdicts: Vec<bool> = rows(report).iter().filter_map(Row::met).collect();
    let verdicts: Vec<bool> = verdicts.into_iter().chain(growth(report).iter().filter_map(Growth::met)).collect();
    let met = verdicts.iter().filter(|met| **met).count();
    let mut client: Vec<String> = [("create", &report.create), ("get", &report.get), ("merge patch", &report.patch)]
        .into_iter()
        .flat_map(|(name, sides)| sides.iter().map(move |one| (name, one)))
        .map(|(name, one)| format!("{name} {:?} {:.0} µs", one.side, one.figures.client_cpu_us))
        .collect();
    client.extend(report.watch.iter().map(|one| format!("delivery {:?} {:.1} µs", one.side, one.client_cpu_us)));
    let client = if client.is_empty() {
        String::new()
    } else {
        format!(" Load generator CPU per request: {}.", client.join(", "))
    };
    format!("{met} of {} targets met.{client}", verdicts.len())
}

fn cells(row: &Row) -> Vec<String> {
    let target = match row.target {
        Some(Target::Ratio(least)) => format!("≥ {least:.0}×"),
        Some(Target::Below(limit)) => format!("< {limit:.0} {}", row.unit),
        None => String::new(),
    };
    vec![
        row.what.clone(),
        format!("{} {}", number(row.flotilla), row.unit),
        row.kube.map_or("—".to_owned(), |kube| format!("{} {}", number(kube), row.unit)),
        row.ratio.map_or("—".to_owned(), |ratio| format!("{ratio:.1}×")),
        target,
        verdict(row.met()).to_owned(),
    ]
}

fn growth_cells(grown: &[Growth]) -> Vec<Vec<String>> {
    let mut sizes: Vec<usize> = grown.iter().flat_map(|g| g.sizes.iter().map(|point| point.0)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut header = vec!["operation".to_owned()];
    header.extend(sizes.iter().map(|size| format!("{} objects", grouped(*size))));
    header.extend(["last / first".to_owned(), String::new()]);
    let mut lines = vec![header];
    for growth in grown {
        let mut line = vec![format!("{:?} {}", growth.side, growth.operation).to_lowercase()];
        for size in &sizes {
            let point = growth.sizes.iter().find(|point| point.0 == *size);
            line.push(point.map_or("—".to_owned(), |(_, p50, p99, cpu)| format!("{p50:.2} / {p99:.2} ({cpu:.0})")));
        }
        line.push(format!("{:.2}", growth.factor));
        line.push(verdict(growth.met()).to_owned());
        lines.push(line);
    }
    lines
}

fn verdict(met: Option<bool>) -> &'static str {
    match met {
        Some(true) => "met",
        Some(false) => "NOT MET",
        None => "",
    }
}

fn number(value: f64) -> String {
    match value {
        v if v >= 1000.0 => grouped(v.round() as usize),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |column: usize| lines.iter().filter_map(|l| l.get(column)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (column, cell) in line.iter().enumerate() {
            let gap = " ".repeat(widths[column] - cell.chars().count());
            // Words to the left, figures to the right.
            if column == 0 { row += &format!("{cell}{gap}") } else { row += &format!("  {gap}{cell}") }
        }
        let _ = writeln!(text, "{}", row.trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{grouped, number};

    #[test]
    fn figures_are_short_and_grouped() {
        assert_eq!(grouped(100_000), "100,000");
        assert_eq!(grouped(999), "999");
        assert_eq!(number(1234.5), "1,235");
        assert_eq!(number(0.1234), "0.12");
    }
}
