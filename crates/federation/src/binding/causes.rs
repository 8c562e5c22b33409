//! The reason a template is queued: a policy with lazy activation waits for a change made by users.

use std::collections::HashMap;

use crate::templates::Template;

/// The later says more and wins when several come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It was there when this started; nothing happened to it.
    Found,
    /// The control plane or a lazily activated policy changed, not what users wrote into the template.
    Karmada,
    Changed,
}

/// One cause per queued template; as many as the queue has keys.
#[derive(Default)]
pub struct Causes {
    causes: HashMap<Template, Cause>,
}

impl Causes {
    pub fn note(&mut self, template: &Template, cause: Cause) {
        match self.causes.get_mut(template) {
            Some(known) => *known = cause.max(*known),
            None => drop(self.causes.insert(template.clone(), cause)),
        }
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
}
