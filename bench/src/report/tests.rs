//! The report contains the results, the parts that were not run, and where we are behind.

use crate::machine::Machine;
use crate::outcome::{PartOutcome, Run};
use crate::parts::BenchPart;
use crate::process::Memory;
use crate::report::{Chapter, Found, chapter, markdown, write};
use crate::{scheduler, start};

fn run(started: &str) -> Run {
    let machine = Machine {
        processor: "Example 9000".to_owned(),
        cores: 2,
        memory_gib: 23,
        kernel: "6.18".to_owned(),
        file_system: "ext4".to_owned(),
        load_before: 0.1,
        time: started.to_owned(),
    };
    let program = "/work/target/release/flotilla".to_owned();
    Run { started: started.to_owned(), machine, versions: vec!["flotilla 0.1.0".to_owned()], program, quick: false }
}

fn started(plane: crate::fleet::plane::Which, seconds: f64, mib: f64) -> start::Started {
    start::Started {
        plane,
        starts: 1,
        ready_seconds: seconds,
        idle: Memory { resident_mib: mib, anonymous_mib: mib / 2.0 },
        idle_cpu_percent: 1.0,
        processes: Vec::new(),
    }
}

fn save_start(folder: &std::path::Path, ours: f64, failed: Option<&str>) {
    use crate::fleet::plane::Which::{Flotilla, Karmada};
    let planes = vec![started(Flotilla, 0.1, ours), started(Karmada, 20.0, 600.0)];
    let outcome = PartOutcome {
        run: run("2026-01-01 00:00:00 UTC"),
        took_seconds: 12.0,
        failed: failed.map(str::to_owned),
        notes: Vec::new(),
        results: start::Results { planes, first_workload: None },
    };
    outcome.save(folder, "start").expect("figures are saved");
}

#[test]
fn the_report_names_the_machine_and_missing_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    save_start(folder.path(), 30.0, Some("no port\nwas free"));
    write(folder.path()).expect("a report");
    let text = std::fs::read_to_string(folder.path().join("report.md")).expect("a report");
    for part in [
        "2 cores of Example 9000",
        "start: no port was free",
        "scale: not run",
        "20.0×",
        "Nothing that was compared is behind",
    ] {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    let svg = std::fs::read_to_string(folder.path().join("ratios.svg")).expect("a plot");
    assert!(svg.contains("whole plane, idle memory, resident"), "{svg}");
}

#[test]
fn the_report_lists_where_we_are_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    save_start(folder.path(), 900.0, None);
    let text = markdown(&[chapter(BenchPart::Start, folder.path())], false);
    let (_, after) = text.split_once("Where flotilla is not ahead:").expect("a list of what is behind");
    assert!(after.contains("whole plane, idle memory, resident: 0.67×"), "{text}");
    assert!(text.contains("**not met**") && !text.contains("Nothing that was compared is behind"), "{text}");
}

#[test]
fn parts_of_several_runs_are_distinguished() {
    let of = |part, started: &str| Chapter {
        part,
        title: "x",
        other: "y",
        found: Some(Found {
            run: run(started),
            took_seconds: 1.0,
            failed: None,
            notes: Vec::new(),
            rows: scheduler::rows(&scheduler::Results::default()),
            details: String::new(),
        }),
    };
    let text = markdown(
        &[of(BenchPart::Start, "monday"), of(BenchPart::Scale, "tuesday"), of(BenchPart::Agents, "monday")],
        false,
    );
    assert!(text.contains("Parts of this run: start, agents.") && text.contains("Parts of this run: scale."), "{text}");
}

#[test]
fn figures_of_another_format_are_ignored() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("start.json"), "[]").expect("a file");
    assert!(chapter(BenchPart::Start, folder.path()).found.is_none());
}
