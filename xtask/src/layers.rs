//! Checks the layer map: every dependency between our crates is listed in `layers.toml` and points down.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

const NAMES: [&str; 5] = ["foundation", "decisions", "infrastructure", "components", "entry points"];

#[derive(Deserialize)]
struct Map {
    layers: BTreeMap<String, usize>,
    edges: Edges,
}

type Edges = BTreeMap<String, BTreeSet<String>>;

/// Every dependency that the map does not allow, and every entry of the map without a crate or a dependency.
pub fn complaints(root: &Path) -> anyhow::Result<Vec<String>> {
    let map = read(root)?;
    let actual = edges(root)?;
    let mut complaints = compare(&map, &actual);
    complaints
        .extend(map.edges.iter().flat_map(|(from, targets)| targets.iter().filter_map(|to| direction(&map, from, to))));
    Ok(complaints)
}

/// The crates of one layer.
pub fn crates_of(root: &Path, layer: usize) -> anyhow::Result<BTreeSet<String>> {
    let layers = read(root)?.layers.into_iter();
    Ok(layers.filter(|(_, found)| *found == layer).map(|(name, _)| name).collect())
}

fn read(root: &Path) -> anyhow::Result<Map> {
    let text = std::fs::read_to_string(root.join("xtask/layers.toml")).context("cannot read xtask/layers.toml")?;
    toml::from_str(&text).context("xtask/layers.toml is not valid")
}

/// Differences between the map and the manifests, in both directions.
fn compare(map: &Map, actual: &Edges) -> Vec<String> {
    let mut complaints = Vec::new();
    let none = BTreeSet::new();
    for (from, targets) in actual {
        if !map.layers.contains_key(from) {
            complaints.push(format!("crate {from} has no layer in xtask/layers.toml"));
        }
        for to in targets.difference(map.edges.get(from).unwrap_or(&none)) {
            complaints.push(format!("crate {from} depends on {to}, which xtask/layers.toml does not allow"));
        }
    }
    for (from, targets) in &map.edges {
        for to in targets.difference(actual.get(from).unwrap_or(&none)) {
            complaints.push(format!("xtask/layers.toml lists {from} → {to}, which is in no manifest: remove it"));
        }
    }
    for name in map.layers.keys().filter(|name| !actual.contains_key(*name)) {
        complaints.push(format!("xtask/layers.toml gives a layer to {name}, which is no crate: remove it"));
    }
    complaints
}

/// The complaint about an edge that points up, or crosses between decisions and infrastructure.
fn direction(map: &Map, from: &str, to: &str) -> Option<String> {
    let name = |layer: usize| NAMES.get(layer).copied().unwrap_or("unknown layer");
    let above = *map.layers.get(from)?;
    match map.layers.get(to) {
        None => Some(format!("{from} → {to}: {to} has no layer in xtask/layers.toml")),
        Some(below) if *below > above => {
            Some(format!("{from} → {to} points up, from {} to {}", name(above), name(*below)))
        }
        Some(1) if above == 2 => {
            Some(format!("{from} → {to}: decisions and infrastructure are used together only in components"))
        }
        Some(_) => None,
    }
}

fn edges(root: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata did not answer with JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let ours: BTreeSet<&str> = packages.iter().filter_map(|p| p["name"].as_str()).filter(|n| *n != "xtask").collect();
    let mut edges = BTreeMap::new();
    for package in packages.iter().filter(|p| ours.contains(p["name"].as_str().unwrap_or_default())) {
        let name = package["name"].as_str().unwrap_or_default().to_owned();
        let used = package["dependencies"].as_array().into_iter().flatten();
        let used = used.filter(|d| d["kind"] != "dev").filter_map(|d| d["name"].as_str());
        edges.insert(name, used.filter(|n| ours.contains(n)).map(str::to_owned).collect());
    }
    Ok(edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(layers: &[(&str, usize)], listed: &[(&str, &str)], actual: &[(&str, &str)], expected: &[&str]) {
        let layers: BTreeMap<String, usize> = layers.iter().map(|(name, layer)| ((*name).to_owned(), *layer)).collect();
        let edges = |pairs: &[(&str, &str)]| {
            let mut edges: Edges = layers.keys().map(|name| (name.clone(), BTreeSet::new())).collect();
            for (from, to) in pairs {
                edges.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            }
            edges
        };
        let map = Map { edges: edges(listed), layers: layers.clone() };
        let mut found = compare(&map, &edges(actual));
        found.extend(listed.iter().filter_map(|(from, to)| direction(&map, from, to)));
        assert_eq!(found, expected);
    }

    #[test]
    fn the_map_and_the_manifests_agree_in_both_directions() {
        let layers = [("object", 0), ("cel", 1), ("store", 2)];
        check(&layers, &[("cel", "object")], &[("cel", "object")], &[]);
        check(
            &layers,
            &[],
            &[("cel", "object")],
            &["crate cel depends on object, which xtask/layers.toml does not allow"],
        );
        check(
            &layers,
            &[("cel", "object")],
            &[],
            &["xtask/layers.toml lists cel → object, which is in no manifest: remove it"],
        );
    }

    #[test]
    fn edges_point_down_and_not_across() {
        let layers = [("object", 0), ("cel", 1), ("store", 2)];
        let up = [("object", "store")];
        check(&layers, &up, &up, &["object → store points up, from foundation to infrastructure"]);
        let across = [("store", "cel")];
        let text = "store → cel: decisions and infrastructure are used together only in components";
        check(&layers, &across, &across, &[text]);
    }
}
