//! `taint`: updates the taints of clusters.

use anyhow::{anyhow, bail};
use api::cluster::ClusterSpec;
use clap::Args;
use cluster_client::ClusterClient;
use object::taints::Taint;

use crate::cluster_taints;
use crate::console::Console;
use crate::outcome::DryRun;
use crate::plane::{PlaneArgs, PlaneClient};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Update the taints on one or more clusters.
///
/// A taint is KEY[=VALUE]:EFFECT; the effect is NoSchedule, PreferNoSchedule or NoExecute. A dash at the end removes it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  # Taint cluster foo; with --overwrite the value of such a taint is replaced
  flotilla taint clusters foo dedicated=special-user:NoSchedule

  # Remove the taint with key dedicated and effect NoSchedule
  flotilla taint clusters foo dedicated:NoSchedule-

  # Remove all taints with key dedicated
  flotilla taint clusters foo dedicated-

  # Add a taint without a value to two clusters
  flotilla taint clusters foo bar maintenance:NoExecute")]
pub struct TaintArgs {
    /// clusters NAME... KEY[=VALUE]:EFFECT... KEY[:EFFECT]-...
    #[arg(value_name = "ARGUMENT", allow_hyphen_values = false)]
    arguments: Vec<String>,
    #[command(flatten)]
    plane: PlaneArgs,
    /// Allow taints to be overwritten
    #[arg(long)]
    overwrite: bool,
    /// Print what would be done, without doing it
    #[arg(long)]
    dry_run: bool,
}

/// The parsed arguments.
#[derive(Debug, PartialEq)]
struct Change {
    clusters: Vec<String>,
    add: Vec<Taint>,
    /// Without an effect, all taints with the key.
    remove: Vec<Taint>,
    overwrite: bool,
}

pub async fn run(console: &Console, args: TaintArgs) -> anyhow::Result<()> {
    let change = Change::parse(&args.arguments, args.overwrite)?;
    let plane = PlaneClient::open(&args.plane)?;
    apply(console, &plane.client, &change, args.dry_run).await.map_err(|error| plane.explain(error))
}

async fn apply(console: &Console, client: &ClusterClient, change: &Change, dry_run: bool) -> anyhow::Result<()> {
    let mut failures: Vec<anyhow::Error> = Vec::new();
    for name in &change.clusters {
        match apply_to(client, name, change, dry_run).await {
            Ok(word) => console.line(format!("cluster/{name} {word}"))?,
            Err(error) => failures.push(error),
        }
    }
    match failures.len() {
        0 => Ok(()),
        1 => Err(failures.remove(0)),
        _ => {
            let texts: Vec<String> = failures.iter().map(|error| format!("{error:#}")).collect();
            Err(anyhow!("[{}]", texts.join(", ")))
        }
    }
}

async fn apply_to(client: &ClusterClient, name: &str, change: &Change, dry_run: bool) -> anyhow::Result<&'static str> {
    let dry_run = if dry_run { DryRun::Client } else { DryRun::None };
    cluster_taints::change(client, name, dry_run, |cluster| {
        let spec: ClusterSpec = api::read(cluster)?;
        let (word, taints) = change.plan(name, &spec.taints)?;
        Ok((word, Some(taints.iter().map(serde_json::to_value).collect::<Result<Vec<_>, _>>()?)))
    })
    .await
}

impl Change {
    fn parse(arguments: &[String], overwrite: bool) -> anyhow::Result<Self> {
        let is_taint = |text: &String| text.contains(['=', ':']) || text.ends_with('-');
        let names_end = arguments.iter().position(is_taint).unwrap_or(arguments.len());
        let (names, taints) = arguments.split_at(names_end);
        if let Some(late) = taints.iter().find(|text| !is_taint(text)) {
            bail!("all resources must be specified before taint changes: {late}");
        }
        let Some((kind, clusters)) = names.split_first() else {
            bail!("one or more resources must be specified as <resource> <name>");
        };
        if taints.is_empty() {
            bail!("at least one taint update is required");
        }
        let mut change = Self { clusters: clusters.to_vec(), add: Vec::new(), remove: Vec::new(), overwrite };
        for text in taints {
            change.read_taint(text)?;
        }
        if !matches!(kind.to_lowercase().as_str(), "cluster" | "clusters") {
            bail!("invalid resource type {}, only [\"cluster\" \"clusters\"] are supported", kind.to_lowercase());
        }
        change.refuse_contradictions()?;
        if clusters.is_empty() {
            bail!("at least one resource name must be specified");
        }
        Ok(change)
    }

    fn read_taint(&mut self, text: &str) -> anyhow::Result<()> {
        if let Some(removed) = text.strip_suffix('-') {
            let taint = parse_taint(removed)?;
            self.remove.push(Taint { value: String::new(), ..taint });
            return Ok(());
        }
        let taint = parse_taint(text)?;
        if taint.effect.is_empty() {
            bail!("invalid taint spec: {text}");
        }
        if self.add.iter().any(|other| same(other, &taint)) {
            bail!("duplicated taints with the same key and effect: {}", show(&taint));
        }
        self.add.push(taint);
        Ok(())
    }

    fn refuse_contradictions(&self) -> anyhow::Result<()> {
        let mut both: Vec<String> = Vec::new();
        for add in &self.add {
            let removes = |r: &&Taint| r.key == add.key && (r.effect.is_empty() || r.effect == add.effect);
            both.extend(self.remove.iter().filter(removes).map(|r| format!("{{\"{}\":\"{}\"}}", r.key, r.effect)));
        }
        if !both.is_empty() {
            bail!("can not both modify and remove the following taint(s) in the same command: {}", both.join(", "));
        }
        Ok(())
    }

    /// Returns the new taints of a cluster, and the word that describes the change.
    fn plan(&self, name: &str, old: &[Taint]) -> anyhow::Result<(&'static str, Vec<Taint>)> {
        if !self.overwrite {
            let taken: Vec<&str> =
                self.add.iter().filter(|add| old.iter().any(|o| same(o, add))).map(|add| add.key.as_str()).collect();
            if !taken.is_empty() {
                bail!(
                    "cluster {name} already has {} taint(s) with same effect(s) and --overwrite is false",
                    taken.join(",")
                );
            }
        }
        let mut taints = self.add.clone();
        taints.extend(old.iter().filter(|o| !self.add.iter().any(|add| same(o, add))).cloned());
        let has_grown = taints.len() != old.len();
        let mut has_shrunk = false;
        let mut missing: Vec<String> = Vec::new();
        for remove in &self.remove {
            let before = taints.len();
            taints.retain(|t| t.key != remove.key || (!remove.effect.is_empty() && t.effect != remove.effect));
            has_shrunk = taints.len() != before;
            if !has_shrunk {
                missing.push(format!("taint \"{}\" not found", show(remove)));
            }
        }
        match &missing[..] {
            [] => {}
            [one] => bail!("{one}"),
            many => bail!("[{}]", many.join(", ")),
        }
        let word = match () {
            () if (has_grown && has_shrunk) || self.overwrite => "modified",
            () if has_grown => "tainted",
            () => "untainted",
        };
        Ok((word, taints))
    }
}

fn same(a: &Taint, b: &Taint) -> bool {
    a.key == b.key && a.effect == b.effect
}

/// Formats a taint as `key=value:effect`, without empty parts.
fn show(taint: &Taint) -> String {
    match (taint.value.is_empty(), taint.effect.is_empty()) {
        (true, true) => taint.key.clone(),
        (true, false) => format!("{}:{}", taint.key, taint.effect),
        (false, true) => format!("{}={}:", taint.key, taint.value),
        (false, false) => format!("{}={}:{}", taint.key, taint.value, taint.effect),
    }
}

/// Parses `KEY`, `KEY:EFFECT` or `KEY=VALUE:EFFECT`.
fn parse_taint(text: &str) -> anyhow::Result<Taint> {
    let (key, value, effect) = match text.split(':').collect::<Vec<_>>()[..] {
        [key] => (key, "", ""),
        [pair, effect] => {
            if !EFFECTS.contains(&effect) {
                bail!("invalid taint effect: {effect}, unsupported taint effect; use one of {}", EFFECTS.join(", "));
            }
            match pair.split('=').collect::<Vec<_>>()[..] {
                [key] => (key, "", effect),
                [key, value] => (key, value, effect),
                _ => bail!("invalid taint spec: {text}"),
            }
        }
        _ => bail!("invalid taint spec: {text}"),
    };
    let mut problems = object::names::label_value(value);
    problems.extend(object::names::qualified_name(key));
    if !problems.is_empty() {
        bail!("invalid taint spec: {text}, {}", problems.join("; "));
    }
    Ok(Taint { key: key.into(), value: value.into(), effect: effect.into(), time_added: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str, overwrite: bool) -> Result<Change, String> {
        let arguments: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Change::parse(&arguments, overwrite).map_err(|error| error.to_string())
    }

    fn plan(text: &str, overwrite: bool, old: &[&str]) -> Result<String, String> {
        let old: Vec<Taint> = old.iter().map(|text| parse_taint(text).unwrap()).collect();
        let (word, taints) = change(text, overwrite)?.plan("m1", &old).map_err(|error| error.to_string())?;
        let shown: Vec<String> = taints.iter().map(show).collect();
        Ok(format!("{word} {}", shown.join(" ")))
    }

    #[test]
    fn taints_are_added_changed_and_removed() {
        let ok = |text: &str, overwrite, old: &[&str], expected: &str| {
            assert_eq!(plan(text, overwrite, old).unwrap(), expected, "{text}");
        };
        ok("clusters m1 a=b:NoSchedule", false, &[], "tainted a=b:NoSchedule");
        ok("cluster m1 a:NoExecute", false, &["x:NoSchedule"], "tainted a:NoExecute x:NoSchedule");
        ok("clusters m1 a=c:NoSchedule", true, &["a=b:NoSchedule"], "modified a=c:NoSchedule");
        ok("clusters m1 a:NoSchedule-", false, &["a=b:NoSchedule", "a:NoExecute"], "untainted a:NoExecute");
        ok("clusters m1 a-", false, &["a=b:NoSchedule", "a:NoExecute"], "untainted ");
        ok("clusters m1 b:NoSchedule a-", false, &["a:NoExecute"], "modified b:NoSchedule");
    }

    #[test]
    fn contradictions_and_typos_are_refused() {
        let refused = |text: &str, old: &[&str], expected: &str| {
            assert_eq!(plan(text, false, old).unwrap_err(), expected, "{text}");
        };
        refused(
            "clusters m1 a=c:NoSchedule",
            &["a=b:NoSchedule"],
            "cluster m1 already has a taint(s) with same effect(s) and --overwrite is false",
        );
        refused("clusters m1 a-", &[], "taint \"a\" not found");
        refused("clusters m1 a:NoSchedule- b-", &[], "[taint \"a:NoSchedule\" not found, taint \"b\" not found]");
        refused(
            "clusters m1 a:NoSchedule a:NoSchedule-",
            &[],
            "can not both modify and remove the following taint(s) in the same command: {\"a\":\"NoSchedule\"}",
        );
        refused(
            "clusters m1 a=b",
            &[],
            "invalid taint spec: a=b, name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
        );
        refused(
            "nodes n1 a:NoSchedule",
            &[],
            "invalid resource type nodes, only [\"cluster\" \"clusters\"] are supported",
        );
        refused("clusters a:NoSchedule", &[], "at least one resource name must be specified");
        refused("clusters m1", &[], "at least one taint update is required");
        refused("a:NoSchedule", &[], "one or more resources must be specified as <resource> <name>");
        refused("clusters m1 a:NoSchedule m2", &[], "all resources must be specified before taint changes: m2");
        refused(
            "clusters m1 a:Never",
            &[],
            "invalid taint effect: Never, unsupported taint effect; use one of NoSchedule, PreferNoSchedule, NoExecute",
        );
        refused(
            "clusters m1 a:NoSchedule a:NoSchedule",
            &[],
            "duplicated taints with the same key and effect: a:NoSchedule",
        );
    }
}
