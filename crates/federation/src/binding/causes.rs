//! The reason a template is queued: a policy with lazy activation waits for a change made by users.

use std::collections::HashMap;

use crate::templates::Template;

/// The later says more and wins when several come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A policy claimed it, which is not news to the reconcile that did that.
    Claimed,
    /// It was there when this started; nothing happened to it.
    Found,
    /// The control plane or a lazily activated policy changed, not what users wrote into the template.
    Karmada,
    Changed,
}

/// Claims whose event has not come yet. The event of a forgotten one costs a reconcile that changes nothing.
const CLAIMS_MAX: usize = 4096;

/// One cause per queued template; as many as the queue has keys.
#[derive(Default)]
pub struct Causes {
    causes: HashMap<Template, Cause>,
    /// Versions of templates with own claims, whose bindings follow already.
    claims: HashMap<Template, String>,
}

impl Causes {
    pub fn note(&mut self, template: &Template, cause: Cause) {
        match self.causes.get_mut(template) {
            Some(known) => *known = cause.max(*known),
            None => drop(self.causes.insert(template.clone(), cause)),
        }
    }

    /// Notes that the binding follows this version of the template, which an own claim made.
    pub fn note_claim(&mut self, template: &Template, version: &str) {
        if self.claims.len() >= CLAIMS_MAX {
            self.claims.clear();
        }
        self.claims.insert(template.clone(), version.to_owned());
    }

    /// Reports whether the binding follows this version already. The answer is given once.
    pub fn take_claim(&mut self, template: &Template, version: &str) -> bool {
        self.claims.remove(template).is_some_and(|known| known == version)
    }

    /// Templates without a recorded cause were changed.
    pub fn take(&mut self, template: &Template) -> Cause {
        self.causes.remove(template).unwrap_or(Cause::Changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_changes_are_kept_over_changes_of_the_plane() {
        let template = Template::new("v1", "ConfigMap", "a", "x");
        let mut causes = Causes::default();
        for cause in [Cause::Found, Cause::Changed, Cause::Karmada] {
            causes.note(&template, cause);
        }
        assert_eq!(causes.take(&template), Cause::Changed);
        causes.note(&template, Cause::Karmada);
        assert_eq!(causes.take(&template), Cause::Karmada);
        assert_eq!(causes.take(&template), Cause::Changed, "each is taken once");
    }

    #[test]
    fn only_the_version_of_an_own_claim_is_known() {
        let template = Template::new("v1", "ConfigMap", "a", "x");
        let mut causes = Causes::default();
        causes.note(&template, Cause::Claimed);
        causes.note(&template, Cause::Changed);
        assert_eq!(causes.take(&template), Cause::Changed, "a change meanwhile is not taken for the claim");
        causes.note_claim(&template, "7");
        assert!(!causes.take_claim(&template, "8"));
        causes.note_claim(&template, "7");
        assert!(causes.take_claim(&template, "7"));
        assert!(!causes.take_claim(&template, "7"), "each is taken once");
    }
}
