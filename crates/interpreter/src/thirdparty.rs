//! Rules for kinds of other projects, bundled as data: `thirdparty/<group>/<version>/<Kind>/customization.yaml`.

use std::sync::OnceLock;

use object::Object;
use serde_json::Value;

use crate::customization::Customizations;
use crate::lua::Module;
use crate::pod;

/// What the bundled scripts share.
const MODULES: &[Module] = &[("rollup", include_str!("../thirdparty/rollup.lua"))];

macro_rules! bundled {
    ($($path:literal,)*) => {
        /// Target and text of every bundled customization.
        const FILES: &[(&str, &str)] =
            &[$(($path, include_str!(concat!("../thirdparty/", $path, "/customization.yaml"))),)*];
    };
}

bundled! {
    "apps.kruise.io/v1alpha1/CloneSet",
}

/// The bundled rules, ready to answer.
pub fn customizations(options: pod::Options) -> Customizations {
    Customizations::new(objects().iter(), options, MODULES)
}

/// Read once: the files never change while we run.
fn objects() -> &'static [Object] {
    static OBJECTS: OnceLock<Vec<Object>> = OnceLock::new();
    OBJECTS.get_or_init(|| FILES.iter().filter_map(|(_, text)| read(text)).collect())
}

/// `None` when the text is no object, which a test rules out for our own files.
fn read(text: &str) -> Option<Object> {
    serde_saphyr::from_str::<Value>(text).ok().and_then(Object::from_value)
}

#[cfg(test)]
mod tests;
