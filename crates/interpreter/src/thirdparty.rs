//! Rules for kinds of other projects, bundled as data: `thirdparty/<group>/<version>/<Kind>/customization.yaml`.

use std::sync::OnceLock;

use object::Object;
use serde_json::Value;

use crate::customization::Customizations;
use crate::environment::ScriptEnvironment;
use crate::lua::Module;
use crate::pod;

/// Modules shared by the bundled scripts.
const MODULES: &[Module] = &[("rules", include_str!("../thirdparty/rules.lua"))];

macro_rules! bundled {
    ($($path:literal,)*) => {
        /// Target and text of every bundled customization.
        const FILES: &[(&str, &str)] =
            &[$(($path, include_str!(concat!("../thirdparty/", $path, "/customization.yaml"))),)*];
    };
}

bundled! {
    "apps.kruise.io/v1alpha1/AdvancedCronJob",
    "apps.kruise.io/v1alpha1/BroadcastJob",
    "apps.kruise.io/v1alpha1/CloneSet",
    "apps.kruise.io/v1alpha1/DaemonSet",
    "apps.kruise.io/v1alpha1/SidecarSet",
    "apps.kruise.io/v1alpha1/UnitedDeployment",
    "apps.kruise.io/v1beta1/StatefulSet",
    "argoproj.io/v1alpha1/Workflow",
    "batch.volcano.sh/v1alpha1/Job",
    "flink.apache.org/v1beta1/FlinkDeployment",
    "helm.toolkit.fluxcd.io/v2beta1/HelmRelease",
    "kubeflow.org/v1/Notebook",
    "kubeflow.org/v1/PyTorchJob",
    "kubeflow.org/v1/TFJob",
    "kubeflow.org/v2beta1/MPIJob",
    "kustomize.toolkit.fluxcd.io/v1/Kustomization",
    "kyverno.io/v1/ClusterPolicy",
    "kyverno.io/v1/Policy",
    "ray.io/v1/RayCluster",
    "ray.io/v1/RayJob",
    "ray.io/v1/RayService",
    "source.toolkit.fluxcd.io/v1/GitRepository",
    "source.toolkit.fluxcd.io/v1beta2/Bucket",
    "source.toolkit.fluxcd.io/v1beta2/HelmChart",
    "source.toolkit.fluxcd.io/v1beta2/HelmRepository",
    "source.toolkit.fluxcd.io/v1beta2/OCIRepository",
    "sparkoperator.k8s.io/v1beta2/SparkApplication",
}

/// The bundled rules, ready to use.
pub fn customizations(options: pod::PodOptions, environment: ScriptEnvironment) -> Customizations {
    // Our own files are readable, as a test shows.
    Customizations::new(objects().iter(), options, MODULES, environment, &mut Vec::new())
}

/// Parsed once: the files are compiled in.
fn objects() -> &'static [Object] {
    static OBJECTS: OnceLock<Vec<Object>> = OnceLock::new();
    OBJECTS.get_or_init(|| FILES.iter().filter_map(|(_, text)| read(text)).collect())
}

/// Returns `None` if the text is not an object, which a test rules out for our own files.
fn read(text: &str) -> Option<Object> {
    serde_saphyr::from_str::<Value>(text).ok().and_then(Object::from_value)
}

#[cfg(test)]
mod tests;
