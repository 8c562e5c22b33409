//! Compares discovery and OpenAPI documents with a real kube-apiserver 1.36, key by key.
//!
//! Needs the programs `etcd`, `kube-apiserver` and `kubectl` in `$FLOTILLA_KUBE_BIN` or `~/.cache/flotilla/bin`;
//! without them the test prints a notice and passes.

mod accepted;
mod compare;
mod crds;
mod our_documents;
mod real_server;

use std::sync::Arc;

use compare::Differences;
use kinds::openapi::{OpenApi, OpenApiEntry};
use kinds::{Catalog, discovery};
use object::GroupVersion;
use real_server::RealServer;
use serde_json::{Value, json};

#[test]
fn a_real_server_publishes_the_same() {
    let Some(real) = RealServer::start() else { return };
    let mut differences = Differences::default();
    compare_discovery(&real, &mut differences);
    compare_v3(&real, &mut differences);
    compare_v2(&real, &mut differences);
    compare_custom_kinds(&real, &mut differences);
    differences.report();
}

#[test]
fn kubectl_shows_the_same() {
    let Some(real) = RealServer::start() else { return };
    let ours = format!("http://{}", our_documents::serve());
    let mut commands: Vec<Vec<String>> = vec![
        vec!["api-resources".into(), "--sort-by=name".into()],
        vec!["api-resources".into(), "--categories=all".into(), "-o=wide".into()],
        vec!["api-versions".into()],
        vec!["explain".into(), "deployments.spec".into()],
    ];
    for kind in Catalog::builtin().kinds() {
        let explain = |form: &str| {
            vec![
                "explain".to_owned(),
                kind.plural.clone(),
                format!("--api-version={}", kind.gvk.api_version()),
                form.to_owned(),
            ]
        };
        commands.push(explain("--recursive"));
        if kind.gvk.group == "apps" {
            // The older form reads /openapi/v2 as protobuf.
            commands.push(explain("--output=plaintext-openapiv2"));
        }
    }
    let mut differences = Differences::default();
    for command in commands {
        let (theirs, own) = (real.kubectl(&real.address(), &command), real.kubectl(&ours, &command));
        differences.compare(
            &command.join(" "),
            &json!(theirs.lines().collect::<Vec<_>>()),
            &json!(own.lines().collect::<Vec<_>>()),
        );
    }
    differences.report();
}

fn builtin_entries() -> Vec<OpenApiEntry> {
    Catalog::builtin().kinds().iter().map(|kind| OpenApiEntry { kind: kind.clone(), schema: None }).collect()
}

fn compare_discovery(real: &RealServer, differences: &mut Differences) {
    let catalog = Catalog::builtin();
    let (kinds, groups) = (catalog.kinds(), catalog.groups());
    let items = |core: bool| groups.iter().filter(move |group| group.name.is_empty() == core);
    for (path, core) in [("/api", true), ("/apis", false)] {
        let ours = items(core).map(|group| discovery::group_discovery(kinds, group)).collect();
        let theirs = real.get_as(path, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
        differences.compare(&format!("aggregated {path}"), &theirs, &discovery::group_discovery_list(ours));
    }
    let theirs = real.get("/api");
    let address = theirs["serverAddressByClientCIDRs"][0]["serverAddress"].as_str().expect("an address");
    differences.compare("/api", &theirs, &discovery::api_versions(address));
    differences.compare("/apis", &real.get("/apis"), &discovery::api_group_list(&groups));
    for group in &groups {
        if !group.name.is_empty() {
            let path = format!("/apis/{}", group.name);
            differences.compare(&path, &real.get(&path), &discovery::api_group(group));
        }
        for version in &group.versions {
            let gv = GroupVersion::new(group.name.clone(), version.clone());
            let path = format!("/{}", kinds::openapi::document_name(&gv));
            let ours = discovery::api_resource_list(kinds, &gv).expect("served");
            differences.compare(&path, &accepted::resource_list(real.get(&path)), &accepted::resource_list(ours));
        }
    }
}

fn parsed(document: &kinds::openapi::Document) -> Value {
    serde_json::from_slice(&document.inflate()).expect("documents are JSON")
}

fn compare_v3(real: &RealServer, differences: &mut Differences) {
    let ours = OpenApi::new(builtin_entries());
    let theirs = real.get("/openapi/v3");
    let names = |index: &Value| {
        index["paths"].as_object().expect("an index has paths").keys().map(|name| json!(name)).collect::<Vec<_>>()
    };
    differences.compare("/openapi/v3", &json!(names(&theirs)), &json!(names(&ours.v3_index())));
    for (name, entry) in theirs["paths"].as_object().expect("an index has paths") {
        let url = entry["serverRelativeURL"].as_str().expect("entries have addresses");
        let hash = url.rsplit_once("?hash=").map(|(_, hash)| hash.len());
        assert_eq!(
            hash,
            ours.v3_index()["paths"][name]["serverRelativeURL"]
                .as_str()
                .and_then(|own| own.rsplit_once('='))
                .map(|(_, hash)| hash.len())
        );
        let Some(document) = ours.v3_document(name) else { continue };
        let (their_document, our_document) = (real.get(url), parsed(&document));
        let place = format!("/openapi/v3/{name}");
        compare_descriptions(
            &place,
            &their_document["components"]["schemas"],
            &our_document["components"]["schemas"],
            differences,
        );
        differences.compare(&place, &accepted::v3(their_document), &accepted::v3(our_document));
    }
}

/// The descriptions of fields must be the real ones, for `kubectl explain`.
fn compare_descriptions(place: &str, theirs: &Value, ours: &Value, differences: &mut Differences) {
    for (name, schema) in theirs.as_object().into_iter().flatten() {
        if accepted::own_words(name) || schema["properties"].get("items").is_some() {
            continue;
        }
        differences.compare_texts(&format!("{place} {name}"), schema, &ours[name]);
    }
}

fn compare_v2(real: &RealServer, differences: &mut Differences) {
    let ours = parsed(&OpenApi::new(builtin_entries()).v2_json());
    differences.compare("/openapi/v2", &accepted::v2(real.get("/openapi/v2")), &accepted::v2(ours));
}

fn compare_custom_kinds(real: &RealServer, differences: &mut Differences) {
    let definitions = crds::definitions();
    for crd in &definitions {
        real.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd);
    }
    real.wait_for("/openapi/v3", |index| {
        ["v1", "v1beta1"].iter().all(|version| index["paths"].get(format!("apis/example.com/{version}")).is_some())
    });
    real.wait_for("/openapi/v2", |document| document["definitions"].get("com.example.v1beta1.Widget").is_some());
    real.wait_for("/openapi/v3/apis/example.com/v1", |document| {
        document["paths"].as_object().is_some_and(|p| p.len() == 7)
    });
    let mut entries = builtin_entries();
    entries.extend(definitions.iter().flat_map(crds::entries));
    let kinds: Vec<Arc<kinds::Kind>> = entries.iter().map(|entry| entry.kind.clone()).collect();
    let api = OpenApi::new(entries);
    for version in ["v1", "v1beta1"] {
        let name = format!("apis/example.com/{version}");
        let ours = parsed(&api.v3_document(&name).expect("served"));
        let theirs = real.get(&format!("/openapi/v3/{name}"));
        compare_descriptions(&name, &theirs["components"]["schemas"], &ours["components"]["schemas"], differences);
        differences.compare(&name, &accepted::v3(theirs), &accepted::v3(ours));
        let gv = GroupVersion::new("example.com", version);
        let ours = discovery::api_resource_list(&kinds, &gv).expect("served");
        let theirs = real.get(&format!("/{name}"));
        differences.compare(&name, &accepted::resource_list(theirs), &accepted::resource_list(ours));
    }
    let (theirs, ours) = (real.get("/openapi/v2"), parsed(&api.v2_json()));
    differences.compare("/openapi/v2 with custom kinds", &accepted::v2(theirs), &accepted::v2(ours));
    let groups = discovery::groups(&kinds);
    let ours =
        groups.iter().filter(|group| !group.name.is_empty()).map(|group| discovery::group_discovery(&kinds, group));
    let theirs = real.get_as("/apis", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    differences.compare(
        "aggregated /apis with custom kinds",
        &theirs,
        &discovery::group_discovery_list(ours.collect()),
    );
}
