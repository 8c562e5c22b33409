//! Lists objects: consistent pages from the cache, or from the store at the revision a client names.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use object::Status;
use object::request::VersionMatch;
use object::selector::FieldSelector;
use serde_json::{Value, json};
use store::{RangeEnd, RangeRequest};

use super::Target;
use crate::cache::{Entry, Filter, Page};
use crate::request::ListSelection;
use crate::storage::{Objects, status_of_store};

/// Stored objects a page at an old revision reads at a time while it looks for matches.
const HISTORY_CHUNK: usize = 500;

/// A page with the token for the next.
pub struct Listed {
    pub entries: Vec<Arc<Entry>>,
    pub revision: u64,
    pub continue_token: Option<String>,
    pub remaining: Option<u64>,
}

pub async fn list(objects: &Objects, target: &Target, selection: &ListSelection) -> Result<Listed, Status> {
    let cache = &target.resource.cache;
    let filter = target.resource.filter(&target.namespace, selection);
    check_fields(target, &selection.fields)?;
    if let Some(token) = &selection.options.continue_token {
        let place = Continue::decode(token, &target.namespace)?;
        return continue_list(objects, target, &filter, selection.limit(), place).await;
    }
    match (selection.revision, selection.options.resource_version_match) {
        (Some(revision), Some(VersionMatch::Exact)) => {
            return page_at(objects, target, &filter, None, selection.limit(), revision).await;
        }
        (None, _) => cache.fresh().await?,
        (Some(0), _) => cache.ready().await?,
        (Some(revision), _) => cache.reach(revision).await?,
    }
    Ok(listed(cache.page(&filter, None, selection.limit())))
}

async fn continue_list(
    objects: &Objects,
    target: &Target,
    filter: &Filter,
    limit: usize,
    place: Continue,
) -> Result<Listed, Status> {
    match place.revision {
        Some(revision) => page_at(objects, target, filter, Some(&place.after), limit, revision).await,
        // An inconsistent continuation, which a client may request after its token expired.
        None => {
            target.resource.cache.fresh().await?;
            Ok(listed(target.resource.cache.page(filter, Some(&place.after), limit)))
        }
    }
}

async fn page_at(
    objects: &Objects,
    target: &Target,
    filter: &Filter,
    after: Option<&str>,
    limit: usize,
    revision: u64,
) -> Result<Listed, Status> {
    let cache = &target.resource.cache;
    cache.reach(revision).await?;
    // The cache may still know the page, but clients rely on the time for which kube-apiserver keeps history.
    if revision < objects.history_start() {
        return Err(expired(after));
    }
    if let Some(page) = cache.page_at(filter, after, limit, revision) {
        return Ok(listed(page));
    }
    let page = page_from_history(objects, target, filter, after, limit, revision).await;
    page.map(listed).map_err(|status| if status.is_expired() { expired(after) } else { status })
}

async fn page_from_history(
    objects: &Objects,
    target: &Target,
    filter: &Filter,
    after: Option<&str>,
    limit: usize,
    revision: u64,
) -> Result<Page, Status> {
    let prefix = target.resource.cache.prefix();
    let scope = if target.namespace.is_empty() { prefix.to_owned() } else { format!("{prefix}{}/", target.namespace) };
    let end = store::prefix_end(&scope).expect("a scope ends in a slash, which has a successor");
    // The key right behind `after`: no key sorts between a key and itself with a zero byte appended.
    let mut start = after.map_or_else(|| scope.clone(), |after| format!("{prefix}{after}\0"));
    let mut page = Page { entries: Vec::new(), revision, next: None, remaining: None };
    let selectable = target.resource.cache.selectable();
    loop {
        let request = RangeRequest {
            start: &start,
            end: RangeEnd::Exclusive(&end),
            limit: HISTORY_CHUNK,
            revision: Some(revision),
        };
        let range = objects.store().range(request).await.map_err(status_of_store)?;
        let in_chunk = range.kvs.len();
        for (index, kv) in range.kvs.into_iter().enumerate() {
            start = format!("{}\0", kv.key);
            let key = kv.key[prefix.len()..].to_owned();
            let Ok(entry) = Entry::read(&kv.key, kv.value, kv.mod_revision, selectable) else { continue };
            if !entry.matches(filter) {
                continue;
            }
            page.entries.push(Arc::new(entry));
            if limit > 0 && page.entries.len() == limit {
                let left = (in_chunk - index - 1) as u64 + range.remaining;
                if left > 0 {
                    page.next = Some(key);
                    page.remaining = filter.is_everything().then_some(left);
                }
                return Ok(page);
            }
        }
        if !range.more {
            return Ok(page);
        }
    }
}

fn listed(page: Page) -> Listed {
    let token = page.next.map(|after| Continue { revision: Some(page.revision), after }.encode());
    Listed { entries: page.entries, revision: page.revision, continue_token: token, remaining: page.remaining }
}

/// The message has a token to continue without consistency.
fn expired(after: Option<&str>) -> Status {
    let Some(after) = after else {
        return Status::gone("The resourceVersion for the provided list is too old.");
    };
    let mut status = Status::gone(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list \
         without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
         Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
    );
    let token = Continue { revision: None, after: after.to_owned() }.encode();
    status.details = Some(Box::new(object::status::StatusDetails { continue_token: token, ..Default::default() }));
    status
}

/// Refuses selectors on fields the kind does not offer.
pub fn check_fields(target: &Target, fields: &FieldSelector) -> Result<(), Status> {
    let kind = &target.resource.kind;
    for term in &fields.terms {
        let field = term.field.as_str();
        let known = field == "metadata.name"
            || (field == "metadata.namespace" && kind.namespaced)
            || kind.selectable_fields.iter().any(|f| f.name == field);
        if !known {
            return Err(Status::bad_request(kinds::selectable::unsupported(&kind.gvk, field)));
        }
    }
    Ok(())
}

/// The start of the next page. Clients treat the encoded form as opaque.
struct Continue {
    revision: Option<u64>,
    after: String,
}

impl Continue {
    fn encode(&self) -> String {
        let revision = self.revision.map_or(-1, |r| r as i64);
        URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": self.after}).to_string())
    }

    fn decode(token: &str, namespace: &str) -> Result<Self, Status> {
        let refuse = || Status::bad_request(format!("continue key is not valid: {token:?}"));
        let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|_| refuse())?;
        let value: Value = serde_json::from_slice(&bytes).map_err(|_| refuse())?;
        let after = value["start"].as_str().ok_or_else(refuse)?.to_owned();
        // A token from another namespace must not lead out of the one that was authorized.
        if !namespace.is_empty() && !after.starts_with(&format!("{namespace}/")) {
            return Err(refuse());
        }
        let revision = value["rv"].as_i64().ok_or_else(refuse)?;
        Ok(Self { revision: u64::try_from(revision).ok(), after })
    }
}
