//! Sessions in the storage of the server, so that every replica knows them and a restart ends none.
//!
//! A session is a Secret that is named after a hash of the cookie and sealed with a key that only servers have. A reader of
//! Secrets learns neither cookie nor token, and a writer of Secrets cannot create a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_client::{ClusterClient, DeleteOptions, ListOptions, ResourceRef};
use jiff::Timestamp;
use object::builtin;
use object::request::User;
use object::{GroupVersionKind, GroupVersionResource, Object, Status};
use pki::sealing::SealingKey;
use pki::token::{Secret, hash};
use serde::{Deserialize, Serialize};

use crate::sessions::{PER_USER_MAX, Session, TOTAL_MAX, public_id};

const NAMESPACE: &str = "kube-system";
const TYPE: &str = "flotilla.dev/console-session";
const LABEL: &str = "flotilla.dev/console-session";
const ANNOTATION_USED: &str = "flotilla.dev/session-used";
const FIELD: &str = "session";
const NAME_PREFIX: &str = "console-session-";
const FIELD_MANAGER: &str = "flotilla-console";

/// Reads and writes sessions as Secrets.
pub struct SessionStore {
    pub client: ClusterClient,
    pub key: SealingKey,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
    token: Option<String>,
    opened: i64,
    used: i64,
}

fn secrets() -> GroupVersionResource {
    builtin::secrets()
}

/// The name of the Secret for the hash of a cookie.
fn name_of(key: &str) -> String {
    secret_name(public_id(key))
}

fn secret_name(id: &str) -> String {
    format!("{NAME_PREFIX}{id}")
}

/// Label values have at most 63 characters of a small alphabet; names of users may be anything.
fn user_label(user: &str) -> String {
    hash(user)[..40].to_owned()
}

impl SessionStore {
    pub async fn put(&self, key: &str, session: &Session) -> Result<(), Status> {
        let target = ResourceRef::namespaced(&secrets(), NAMESPACE, &name_of(key));
        let object = self.object(key, session)?;
        self.client.apply(target, object, FIELD_MANAGER).await.map(|_| ())
    }

    fn object(&self, key: &str, session: &Session) -> Result<Object, Status> {
        let User { name, uid, groups, extra } = (*session.user).clone();
        let token = session.token.as_ref().map(|token| token.expose().to_owned());
        let user_label = user_label(&name);
        let (opened, used) = (session.opened.as_second(), session.used.as_second());
        let stored = Stored { name, uid, groups, extra, token, opened, used };
        let plain = serde_json::to_vec(&stored).map_err(Status::internal)?;
        let name = name_of(key);
        let sealed = self.key.seal(&name, &plain).map_err(Status::internal)?;
        let mut object = Object::new(&GroupVersionKind::new("", "v1", "Secret"), Some(NAMESPACE), &name);
        object.set_label(LABEL, &user_label);
        object.set_annotation(ANNOTATION_USED, &used.to_string());
        object.set(&["type"], TYPE);
        object.set(&["data", FIELD], STANDARD.encode(sealed));
        Ok(object)
    }

    pub async fn get(&self, key: &str) -> Result<Option<Session>, Status> {
        let name = name_of(key);
        let found = self.client.find(ResourceRef::namespaced(&secrets(), NAMESPACE, &name)).await?;
        Ok(found.and_then(|object| self.read(&object)))
    }

    fn read(&self, object: &Object) -> Option<Session> {
        let sealed = STANDARD.decode(object.str_at(&["data", FIELD])).ok()?;
        let plain = self.key.open(object.name(), &sealed)?;
        let Stored { name, uid, groups, extra, token, opened, used } = serde_json::from_slice(&plain).ok()?;
        Some(Session {
            user: Arc::new(User { name, uid, groups, extra }),
            token: token.map(Secret::new),
            opened: Timestamp::from_second(opened).ok()?,
            used: Timestamp::from_second(used).ok()?,
        })
    }

    pub async fn remove(&self, key: &str) -> Result<(), Status> {
        self.delete(&name_of(key)).await
    }

    pub async fn remove_public(&self, id: &str) -> Result<(), Status> {
        self.delete(&secret_name(id)).await
    }

    /// Returns the sessions of a user with their public ids.
    pub async fn of_user(&self, user: &str) -> Result<Vec<(String, Session)>, Status> {
        let selector = format!("{LABEL}={}", user_label(user));
        let options = ListOptions { label_selector: Some(selector), ..ListOptions::default() };
        let listed = self.client.list_all(ResourceRef::within(&secrets(), NAMESPACE), options).await?;
        let read = |object: &Arc<Object>| {
            let id = object.name().strip_prefix(NAME_PREFIX)?;
            Some((id.to_owned(), self.read(object)?))
        };
        Ok(listed.items.iter().filter_map(read).filter(|(_, session)| session.user.name == user).collect())
    }

    async fn delete(&self, name: &str) -> Result<(), Status> {
        let target = ResourceRef::namespaced(&secrets(), NAMESPACE, name);
        match self.client.delete(target, DeleteOptions::default()).await {
            Err(status) if status.code != 404 => Err(status),
            _ => Ok(()),
        }
    }

    /// Removes sessions that ended, and the oldest where there would be too many with one more of `user`.
    pub async fn prune(&self, user: &str, now: Timestamp) -> Result<(), Status> {
        let options = ListOptions { label_selector: Some(LABEL.to_owned()), ..ListOptions::default() };
        let listed = self.client.list_all(ResourceRef::within(&secrets(), NAMESPACE), options).await?;
        for name in excess(&listed.items, user, |object| self.read(object).is_none_or(|session| session.is_over(now))) {
            self.delete(&name).await?;
        }
        Ok(())
    }
}

/// Names of the Secrets to remove before `user` gets another session.
fn excess(sessions: &[Arc<Object>], user: &str, is_over: impl Fn(&Object) -> bool) -> Vec<String> {
    let (over, mut rest): (Vec<&Arc<Object>>, Vec<&Arc<Object>>) = sessions.iter().partition(|object| is_over(object));
    rest.sort_by_key(|object| object.annotation(ANNOTATION_USED).and_then(|used| used.parse::<i64>().ok()));
    let mut names: Vec<String> = over.iter().map(|object| object.name().to_owned()).collect();
    let own: Vec<&&Arc<Object>> = rest.iter().filter(|object| object.label(LABEL) == Some(&user_label(user))).collect();
    let own_excess = (own.len() + 1).saturating_sub(PER_USER_MAX);
    names.extend(own.iter().take(own_excess).map(|object| object.name().to_owned()));
    let total_excess = (rest.len() + 1).saturating_sub(own_excess).saturating_sub(TOTAL_MAX);
    names.extend(rest.iter().take(total_excess).map(|object| object.name().to_owned()));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str, user: &str, used: i64) -> Arc<Object> {
        let mut object = Object::new(&GroupVersionKind::new("", "v1", "Secret"), Some(NAMESPACE), name);
        object.set_label(LABEL, &user_label(user));
        object.set_annotation(ANNOTATION_USED, &used.to_string());
        Arc::new(object)
    }

    #[test]
    fn ended_sessions_and_the_oldest_of_the_user_are_removed() {
        let mut all = vec![secret("bob", "bob", 0), secret("over", "bob", 1)];
        all.extend(
            (0..PER_USER_MAX as i64 + 1).rev().map(|number| secret(&format!("ann{number}"), "ann", 10 + number)),
        );
        let is_over = |object: &Object| object.name() == "over";
        assert_eq!(excess(&all, "ann", is_over), ["over", "ann0", "ann1"]);
        assert_eq!(excess(&all, "bob", is_over), ["over"]);
    }
}
