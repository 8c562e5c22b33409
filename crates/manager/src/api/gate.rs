//! Decides about every call before its service gets it, and recognizes repeated creates.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use manager_api::Gate;
use manager_kinds::KARMADAS;
use manager_kinds::permissions::{self, CallerRoles, Verdict};
use object::Status;
use object::request::User;
use object::request::user::AUTHENTICATED_GROUP;
use parking_lot::Mutex;
use transcode::Method;

use super::{ApiCaller, ManagerApi};

/// Time for which a repeated create gets the first answer.
const REPEATED_FOR: Duration = Duration::from_secs(600);
/// Answers that are kept.
const REPEATED_MAX: usize = 1000;
const REQUEST_ID_LENGTH_MAX: usize = 64;

struct Answer {
    call: Vec<u8>,
    result: Vec<u8>,
    at: Instant,
}

/// Answers to creates with a request id.
#[derive(Default)]
pub struct RepeatedCalls {
    answers: Mutex<HashMap<(String, String), Answer>>,
}

impl ManagerApi {
    pub(super) fn caller_roles(&self, user: &User) -> CallerRoles {
        CallerRoles {
            is_authenticated: user.in_group(AUTHENTICATED_GROUP),
            platform: self.operations.rights.platform_roles(user),
            is_some_admin: self.operations.rights.is_some_admin(user),
        }
    }

    pub(super) fn verdict(&self, user: &User, permission: &str, instance: Option<&str>) -> Verdict {
        let access = instance.map(|name| self.operations.rights.instance_access(user, name));
        match permissions::find(permission) {
            Some(permission) => permission.decide(&self.caller_roles(user), access.as_ref()),
            None => Verdict::Forbidden,
        }
    }
}

#[async_trait]
impl Gate<ApiCaller> for ManagerApi {
    async fn permit(&self, caller: &ApiCaller, method: &'static Method, instance: Option<&str>) -> Result<(), Status> {
        let user = &caller.user;
        if let Some(instance) = instance {
            let _ = caller.instance.set(instance.to_owned());
        }
        if method.permission != "public" && !user.in_group(AUTHENTICATED_GROUP) {
            return Err(Status::unauthorized());
        }
        if instance == Some("") {
            return Err(Status::bad_request("the name of the instance is required"));
        }
        match self.verdict(user, method.permission, instance) {
            Verdict::Allowed => Ok(()),
            Verdict::Forbidden => {
                let text = format!("{} needs the permission {}", method.name, method.permission);
                Err(Status::new(403, "Forbidden", text))
            }
            Verdict::Hidden => Err(Status::not_found(&KARMADAS.gvr().group_resource(), instance.unwrap_or_default())),
        }
    }

    async fn reached(&self, caller: &ApiCaller, versions: &[String]) -> Result<(), Status> {
        for version in versions.iter().filter(|version| !version.is_empty()) {
            self.reach(&caller.user, version).await?;
        }
        Ok(())
    }

    fn earlier(&self, caller: &ApiCaller, id: &str, call: &[u8]) -> Result<Option<Vec<u8>>, Status> {
        if id.is_empty() {
            return Ok(None);
        }
        if id.len() > REQUEST_ID_LENGTH_MAX {
            return Err(Status::bad_request(format!("requestId: has more than {REQUEST_ID_LENGTH_MAX} characters")));
        }
        let answers = self.repeated.answers.lock();
        let found = answers.get(&(caller.user.name.clone(), id.to_owned()));
        match found.filter(|answer| answer.at.elapsed() < REPEATED_FOR) {
            None => Ok(None),
            Some(answer) if answer.call == call => Ok(Some(answer.result.clone())),
            Some(_) => Err(Status::bad_request("requestId: was used for another request")),
        }
    }

    fn remember(&self, caller: &ApiCaller, id: &str, call: Vec<u8>, result: Vec<u8>) {
        if id.is_empty() {
            return;
        }
        let mut answers = self.repeated.answers.lock();
        if answers.len() >= REPEATED_MAX {
            answers.retain(|_, answer| answer.at.elapsed() < REPEATED_FOR);
        }
        if answers.len() >= REPEATED_MAX
            && let Some(oldest) = answers.iter().min_by_key(|(_, answer)| answer.at).map(|(key, _)| key.clone())
        {
            answers.remove(&oldest);
        }
        answers.insert((caller.user.name.clone(), id.to_owned()), Answer { call, result, at: Instant::now() });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use manager_api::METHODS;

    use super::*;

    /// Calls with POST that change nothing, and those that exchange credentials.
    const WITHOUT_CHECK: &[&str] = &[
        "ValidateImport",
        "ValidateKubeconfig",
        "Plan",
        "SimulateFailover",
        "PreviewPolicy",
        "CheckPermission",
        "RevealSecret",
        "Login",
        "StartOidc",
        "FinishOidc",
    ];

    #[test]
    fn every_write_can_be_checked_without_writing() {
        for method in METHODS {
            let is_read = method.routes.first().is_some_and(|route| route.verb == "GET");
            let is_exempt = is_read || WITHOUT_CHECK.contains(&method.name);
            let can_check = method.request.field("validate_only").is_some();
            assert_eq!(can_check, !is_exempt, "{}", method.name);
        }
    }

    #[test]
    fn every_list_with_pages_has_fields_and_a_total_on_request() {
        for method in METHODS.iter().filter(|method| method.request.field("page_token").is_some()) {
            // Objects of instances are lists of Kubernetes.
            if method.name == "ListResources" {
                continue;
            }
            for field in ["fields", "include_total"] {
                assert!(method.request.field(field).is_some(), "{} has no {field}", method.name);
            }
            assert!(method.is_stream() || method.response.is_some(), "{}", method.name);
        }
    }

    #[test]
    fn every_rpc_has_a_known_permission_and_a_path_of_its_own() {
        let mut routes = BTreeSet::new();
        for method in METHODS {
            assert!(permissions::find(method.permission).is_some(), "{} {}", method.name, method.permission);
            for route in method.routes {
                let shape: String =
                    route.template.split('/').map(|part| if part.contains('{') { "/*" } else { part }).collect();
                let verb = route.template.rsplit_once(':').map_or("", |(_, verb)| verb);
                assert!(routes.insert((route.verb, shape, verb)), "{} {}", route.verb, route.template);
            }
        }
    }
}
