//! The text below the rows: the method, and the growth of operations with the number of objects.

use std::fmt::Write;

use crate::api_server::results::Results;
use crate::api_server::rows::{Growth, growth};
use crate::api_server::watch::{EVENTS, WATCHERS};
use crate::api_server::watchers::{EVENTS as CROWD_EVENTS, EVENTS_PER_SECOND};
use crate::report::rows::grouped;

pub fn details(report: &Results) -> String {
    let mut text = format!(
        "{} clients over {} with client certificates; ConfigMaps with 1 KiB of data; watch: {EVENTS} events to {WATCHERS} \
         watchers. Many watchers: over HTTP/2, 200 on a connection, {CROWD_EVENTS} events at {EVENTS_PER_SECOND} per second. Both servers take turns, and every write is on disk before it is answered.\n",
        report.clients, report.protocol,
    );
    growth_table(report, &mut text);
    for refusal in report.refusals() {
        let _ = writeln!(text, "\n**Not valid:** {refusal}");
    }
    let client = client_cpu(report);
    if !client.is_empty() {
        let _ = writeln!(text, "\nLoad generator CPU per request: {}.", client.join(", "));
    }
    text
}

fn growth_table(report: &Results, text: &mut String) {
    let grown = growth(report);
    let lines = growth_cells(&grown);
    let Some((header, lines)) = lines.split_first().filter(|_| !grown.is_empty()) else { return };
    text.push_str(
        "\nBeside so many objects, p50 / p99 in milliseconds by four clients (server CPU per request in µs):\n\n",
    );
    let _ = writeln!(text, "| {} |\n|{}", header.join(" | "), "---|".repeat(header.len()));
    for line in lines {
        let _ = writeln!(text, "| {} |", line.join(" | "));
    }
}

fn client_cpu(report: &Results) -> Vec<String> {
    let mut client: Vec<String> = [("create", &report.create), ("get", &report.get), ("merge patch", &report.patch)]
        .into_iter()
        .flat_map(|(name, sides)| sides.iter().map(move |one| (name, one)))
        .map(|(name, one)| format!("{name} {:?} {:.0} µs", one.side, one.figures.client_cpu_us))
        .collect();
    client.extend(report.watch.iter().map(|one| format!("delivery {:?} {:.1} µs", one.side, one.client_cpu_us)));
    client
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
        Some(false) => "**not met**",
        None => "",
    }
}
