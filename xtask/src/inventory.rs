//! Lists the software of others in a release: the licence texts of all dependencies, and a bill of materials (CycloneDX).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::{Value, json};

/// The package whose dependencies are in the release.
const PROGRAM: &str = "cli";

/// A dependency in the released program.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Component {
    /// `cargo`, or `npm` for the web console.
    pub ecosystem: &'static str,
    pub name: String,
    pub version: String,
    pub licence: String,
    /// SHA-256 of the package, in hexadecimal, where the lock file has one.
    pub sha256: Option<String>,
    /// Directory with the licence texts.
    folder: PathBuf,
}

/// Returns the dependencies of the program and of the web console in it, sorted.
pub fn components(root: &Path) -> anyhow::Result<Vec<Component>> {
    let mut found = crates(root)?;
    found.extend(npm_packages(root)?);
    found.sort();
    if let Some(component) = found.iter().find(|component| component.licence.is_empty()) {
        bail!("{} {} has no licence", component.name, component.version);
    }
    Ok(found)
}

/// Returns the licences of all components with their texts.
pub fn licences(components: &[Component]) -> anyhow::Result<String> {
    let mut text = String::from("Flotilla contains the following software of others.\n");
    // Most packages have one of few texts; each is printed once.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for component in components {
        let Component { ecosystem, name, version, licence, .. } = component;
        text += &format!("\n{name} {version} ({ecosystem}): {licence}");
        for found in licence_texts(&component.folder)? {
            texts.entry(found).or_default().push(format!("{name} {version}"));
        }
    }
    for (licence, names) in texts {
        text += &format!("\n\n{}\n{}\n\n{licence}", "-".repeat(80), names.join(", "));
    }
    Ok(text)
}

/// Returns the bill of materials. `date` is part of it, so that the same commit gives the same file.
pub fn bill_of_materials(components: &[Component], version: &str, date: &str) -> Value {
    let listed: Vec<Value> = components
        .iter()
        .map(|component| {
            let Component { ecosystem, name, version, licence, sha256, .. } = component;
            let purl = format!("pkg:{ecosystem}/{}@{version}", name.replace('@', "%40"));
            let mut entry = json!({"type": "library", "bom-ref": purl, "name": name, "version": version,
                "purl": purl, "licenses": [{"expression": licence}]});
            if let Some(sha256) = sha256 {
                entry["hashes"] = json!([{"alg": "SHA-256", "content": sha256}]);
            }
            entry
        })
        .collect();
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": date,
            "component": {"type": "application", "bom-ref": "flotilla", "name": "flotilla", "version": version,
                "licenses": [{"expression": "Apache-2.0"}]},
        },
        "components": listed,
    })
}

/// Returns the version of the workspace.
pub fn version(root: &Path) -> anyhow::Result<String> {
    let manifest: toml::Table = std::fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let version = manifest.get("workspace").and_then(|w| w.get("package")).and_then(|p| p.get("version"));
    Ok(version.and_then(toml::Value::as_str).context("Cargo.toml has no workspace.package.version")?.to_owned())
}

fn crates(root: &Path) -> anyhow::Result<Vec<Component>> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--locked", "--format-version=1", "--filter-platform=x86_64-unknown-linux-gnu"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata is not valid JSON")?;
    let linked = linked_packages(&metadata)?;
    let sums = checksums(root)?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let packages = packages.filter(|package| !package["source"].is_null());
    let packages = packages.filter(|package| package["id"].as_str().is_some_and(|id| linked.contains(id)));
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let described = packages.map(|package| {
        let (name, version) = (text(package, "name"), text(package, "version"));
        let sha256 = sums.get(&(name.clone(), version.clone())).cloned();
        let manifest = PathBuf::from(text(package, "manifest_path"));
        let folder = manifest.parent().map(Path::to_owned).unwrap_or_default();
        // The old form of an alternative.
        let licence = text(package, "license").replace('/', " OR ");
        Component { ecosystem: "cargo", name, version, licence, sha256, folder }
    });
    Ok(described.collect())
}

/// Returns the ids of all packages that are linked into the program, or run to build it.
fn linked_packages(metadata: &Value) -> anyhow::Result<BTreeSet<String>> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let program = packages.into_iter().find(|package| package["name"] == PROGRAM && package["source"].is_null());
    let program = program.and_then(|package| package["id"].as_str()).context("the workspace has no package cli")?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata has no dependency graph")?;
    let nodes: BTreeMap<&str, &Value> = nodes.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let mut found = BTreeSet::new();
    let mut open = vec![program];
    while let Some(id) = open.pop() {
        if !found.insert(id.to_owned()) {
            continue;
        }
        let dependencies = nodes.get(id).and_then(|node| node["deps"].as_array()).into_iter().flatten();
        let is_linked = |dependency: &&Value| {
            let mut kinds = dependency["dep_kinds"].as_array().into_iter().flatten();
            kinds.any(|kind| kind["kind"] != "dev")
        };
        open.extend(dependencies.filter(is_linked).filter_map(|dependency| dependency["pkg"].as_str()));
    }
    Ok(found)
}

/// Returns the checksums in Cargo.lock by name and version.
fn checksums(root: &Path) -> anyhow::Result<BTreeMap<(String, String), String>> {
    let lock: toml::Table = std::fs::read_to_string(root.join("Cargo.lock"))?.parse()?;
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let sums = packages
        .filter_map(|package| Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?)));
    Ok(sums.collect())
}

/// Returns the packages whose code is in the web page.
fn npm_packages(root: &Path) -> anyhow::Result<Vec<Component>> {
    let path = root.join("console/package-lock.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let lock: Value = serde_json::from_str(&text).context("console/package-lock.json is not valid")?;
    let packages = lock["packages"].as_object().context("console/package-lock.json lists no packages")?;
    let used = packages.iter().filter(|(place, package)| {
        !place.is_empty() && package["dev"] != true && package["optional"] != true && package["devOptional"] != true
    });
    let described = used.map(|(place, package)| Component {
        ecosystem: "npm",
        name: place.rsplit("node_modules/").next().unwrap_or_default().to_owned(),
        version: package["version"].as_str().unwrap_or_default().to_owned(),
        licence: package["license"].as_str().unwrap_or_default().to_owned(),
        sha256: None,
        folder: root.join("console").join(place),
    });
    Ok(described.collect())
}

/// Returns the licence files of a package; none if its directory is missing, as for the console's packages without Node.
fn licence_texts(folder: &Path) -> anyhow::Result<Vec<String>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"].iter().any(|prefix| name.starts_with(prefix))
    });
    paths.sort();
    let read = |path: &PathBuf| -> anyhow::Result<String> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    paths.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dependency_is_listed_with_its_licence_and_no_test_dependency_is() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let found = components(&root).expect("an inventory");
        let has = |ecosystem: &str, name: &str| found.iter().any(|c| c.ecosystem == ecosystem && c.name == name);
        assert!(has("cargo", "tokio") && has("cargo", "rustls") && has("npm", "react"));
        assert!(!has("npm", "vite") && !has("cargo", "cli"));
        let bill = bill_of_materials(&found, "1.2.3", "2026-01-01T00:00:00Z");
        assert_eq!(bill["components"].as_array().map(Vec::len), Some(found.len()));
        assert!(found.iter().filter(|c| c.ecosystem == "cargo").all(|c| c.sha256.is_some()));
        let text = licences(&found).expect("the texts");
        assert!(text.contains("\ntokio ") && text.contains("Permission is hereby granted"));
        let licence = licences(&found).expect("the texts");
        assert_eq!(text, licence, "the same input gives the same file");
    }
}
