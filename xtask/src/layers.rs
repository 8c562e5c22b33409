//! Checks the layer map: every edge between our crates must be listed in `layers.toml` and point down.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Map {
    layers: BTreeMap<String, u8>,
    edges: BTreeMap<String, BTreeSet<String>>,
}

/// Returns every edge that is not allowed, and every listed edge that points up.
pub fn complaints(root: &Path) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(root.join("xtask/layers.toml")).context("failed to read xtask/layers.toml")?;
    let map: Map = toml::from_str(&text).context("xtask/layers.toml is invalid")?;
    let actual = edges(root)?;
    let mut complaints = Vec::new();
    for (from, targets) in &actual {
        let Some(layer) = map.layers.get(from) else {
            complaints.push(format!("crate {from} is missing in [layers] of xtask/layers.toml"));
            continue;
        };
        let allowed = map.edges.get(from).cloned().unwrap_or_default();
        for to in targets.difference(&allowed) {
            complaints.push(format!("crate {from} uses {to}, which xtask/layers.toml does not allow"));
        }
        for to in &allowed {
            match map.layers.get(to) {
                Some(below) if below > layer => {
                    complaints.push(format!("{from} → {to} points up (layer {layer} → {below})"))
                }
                Some(1) if *layer == 2 => {
                    complaints.push(format!("{from} → {to}: layers 1 and 2 must not depend on each other"))
                }
                Some(2) if *layer == 1 => {
                    complaints.push(format!("{from} → {to}: layers 1 and 2 must not depend on each other"))
                }
                Some(_) => {}
                None => complaints.push(format!("{from} → {to}: {to} has no layer")),
            }
        }
    }
    Ok(complaints)
}

fn edges(root: &Path) -> anyhow::Result<BTreeMap<String, BTreeSet<String>>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .context("failed to run cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata did not return JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata returned no packages")?;
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
