//! Resources shared by the machines of a testbed in LXD: storage pool, bridge, profile and image. Created if missing,
//! removed with the last machine, and only touched if they have our mark.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Map, Value, json};

use super::api::{Api, ApiError};
use super::image::Ingredients;
use super::settings::{BRIDGE, COMMON_BRIDGE, IMAGE_KEY, ImageSource, LxdSettings, MARK, POOL};
use super::subnet;
use crate::machine::Error;

pub struct Shared<'a> {
    pub api: &'a Api,
    pub settings: &'a LxdSettings,
}

impl Shared<'_> {
    /// Creates pool, bridge and profile, in dependency order.
    pub async fn ensure(&self) -> Result<(), Error> {
        let pool = self.ensure_pool().await?;
        let network = self.ensure_network().await?;
        self.ensure_profile(&pool, &network).await
    }

    async fn ensure_pool(&self) -> Result<String, Error> {
        if let Some(named) = &self.settings.pool {
            return self.named("storage-pools", "storage pool", named).await;
        }
        for pool in ["default", POOL] {
            let found = self.api.find(&format!("/1.0/storage-pools/{pool}")).await;
            if found.map_err(doing("looking for a storage pool"))?.is_some() {
                return Ok(pool.to_owned());
            }
        }
        // A plain directory works everywhere; users with other needs create a pool named default.
        let pool = json!({"name": POOL, "driver": "dir", "description": "Machines of flotilla testbeds", "config": {MARK: "pool"}});
        self.make("/1.0/storage-pools", pool, "creating a storage pool").await?;
        Ok(POOL.to_owned())
    }

    async fn ensure_network(&self) -> Result<String, Error> {
        if let Some(named) = &self.settings.network {
            return self.named("networks", "network", named).await;
        }
        for bridge in [COMMON_BRIDGE, BRIDGE] {
            let found =
                self.api.find(&format!("/1.0/networks/{bridge}")).await.map_err(doing("looking for a bridge"))?;
            if found.is_some_and(|network| network["managed"] == true) {
                return Ok(bridge.to_owned());
            }
        }
        let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
        let address = subnet::pick(&subnet::parse_routes(&routes)).ok_or_else(|| Error::Host {
            problem: "all candidate networks for the bridge are already routed on this host".to_owned(),
            remedy: format!("create the bridge yourself: lxc network create {BRIDGE} ipv4.address=A.B.C.1/24"),
        })?;
        let network = json!({
            "name": BRIDGE, "type": "bridge", "description": "Machines of flotilla testbeds",
            "config": {"ipv4.address": address, "ipv4.nat": "true", "ipv6.address": "none", MARK: "network"},
        });
        self.make("/1.0/networks", network, "creating a bridge").await?;
        Ok(BRIDGE.to_owned())
    }

    async fn named(&self, folder: &str, what: &str, name: &str) -> Result<String, Error> {
        let found = self.api.find(&format!("/1.0/{folder}/{name}")).await.map_err(doing("checking the settings"))?;
        let missing = || Error::Host {
            problem: format!("there is no {what} {name}"),
            remedy: format!(
                "list the available ones with: lxc {} list",
                if folder == "networks" { "network" } else { "storage" }
            ),
        };
        found.map(|_| name.to_owned()).ok_or_else(missing)
    }

    async fn ensure_profile(&self, pool: &str, network: &str) -> Result<(), Error> {
        let name = self.settings.profile();
        let path = format!("/1.0/profiles/{name}");
        let wanted = profile(self.settings, pool, network);
        match self.api.find(&path).await.map_err(doing("looking for the profile"))? {
            None => {
                let mut profile = wanted;
                profile["name"] = json!(name);
                self.make("/1.0/profiles", profile, "creating the profile").await
            }
            Some(found) if found["config"].get(MARK).is_none() => Err(Error::Failed {
                doing: format!("creating the profile {name}"),
                why: format!(
                    "a profile of this name exists that flotilla did not create; rename it: lxc profile rename {name} OTHER"
                ),
            }),
            Some(found) if found["config"] == wanted["config"] && found["devices"] == wanted["devices"] => Ok(()),
            Some(_) => {
                self.api.change(Method::PUT, &path, wanted).await.map_err(doing("updating the profile")).map(|_| ())
            }
        }
    }

    /// Returns the image source of an instance; builds our own image if it is missing.
    pub async fn image_source(
        &self,
        key: impl Future<Output = Result<(Ingredients, String), Error>>,
    ) -> Result<Value, Error> {
        match &self.settings.image {
            ImageSource::Local(alias) => {
                let found = self.api.find(&format!("/1.0/images/aliases/{alias}")).await;
                let by_alias = found.map_err(doing("looking for the image"))?.is_some();
                let field = if by_alias { "alias" } else { "fingerprint" };
                Ok(json!({"type": "image", field: alias}))
            }
            ImageSource::Server { server, alias } => Ok(
                json!({"type": "image", "mode": "pull", "protocol": "simplestreams", "server": server, "alias": alias}),
            ),
            ImageSource::Own => {
                let (ingredients, key) = key.await?;
                let fingerprint = match self.find_image(&key).await? {
                    Some(fingerprint) => fingerprint,
                    None => self.upload_image(ingredients, &key).await?,
                };
                Ok(json!({"type": "image", "fingerprint": fingerprint}))
            }
        }
    }

    async fn find_image(&self, key: &str) -> Result<Option<String>, Error> {
        let images = self.own_images().await?;
        let found = images.iter().find(|image| image["properties"][IMAGE_KEY] == key);
        Ok(found.and_then(|image| image["fingerprint"].as_str()).map(str::to_owned))
    }

    async fn own_images(&self) -> Result<Vec<Value>, Error> {
        let images = self.api.get("/1.0/images?recursion=1").await.map_err(doing("listing images"))?;
        let ours = |image: &&Value| image["properties"].get(IMAGE_KEY).is_some();
        Ok(images.as_array().into_iter().flatten().filter(ours).cloned().collect())
    }

    async fn upload_image(&self, ingredients: Ingredients, key: &str) -> Result<String, Error> {
        let properties = format!("{IMAGE_KEY}={key}&description=Flotilla+machine&os=flotilla");
        let mut headers = Vec::new();
        for program in ["LXD", "Incus"] {
            headers.push((program, "properties", properties.clone()));
            headers.push((program, "filename", format!("flotilla-{key}.tar")));
        }
        let names: Vec<String> = headers.iter().map(|(program, name, _)| format!("X-{program}-{name}")).collect();
        let headers: Vec<(&str, String)> =
            names.iter().map(String::as_str).zip(headers.into_iter().map(|(_, _, value)| value)).collect();
        let uploaded = self.api.upload("/1.0/images", &headers, ingredients.stream(key.to_owned())).await;
        match uploaded {
            Ok(metadata) => metadata["fingerprint"].as_str().map(str::to_owned).ok_or_else(|| Error::Failed {
                doing: "importing the image".to_owned(),
                why: "the daemon did not return a fingerprint".to_owned(),
            }),
            // Another testbed imported the same image concurrently.
            Err(error) if error.already_exists() => match self.find_image(key).await? {
                Some(fingerprint) => Ok(fingerprint),
                None => Err(doing("importing the image")(error)),
            },
            Err(error) => Err(doing("importing the image")(error)),
        }
    }

    /// Removes unused resources: the profile with the testbed's last machine, the rest with the last of all.
    pub async fn tidy(&self) -> Result<(), Error> {
        let testbeds = self.testbeds().await?;
        if !testbeds.contains(&self.settings.testbed) {
            self.remove_marked("profiles", &self.settings.profile()).await?;
        }
        if !testbeds.is_empty() {
            return Ok(());
        }
        for image in self.own_images().await? {
            let fingerprint = image["fingerprint"].as_str().unwrap_or_default();
            self.api.delete(&format!("/1.0/images/{fingerprint}")).await.map_err(doing("removing the image"))?;
        }
        self.remove_marked("networks", BRIDGE).await?;
        self.remove_marked("storage-pools", POOL).await
    }

    /// Returns the names of all testbeds with a machine here.
    async fn testbeds(&self) -> Result<BTreeSet<String>, Error> {
        let instances = self.api.get("/1.0/instances?recursion=1").await.map_err(doing("listing machines"))?;
        let mark = |instance: &Value| instance["config"][MARK].as_str().map(str::to_owned);
        Ok(instances.as_array().into_iter().flatten().filter_map(mark).collect())
    }

    async fn remove_marked(&self, folder: &str, name: &str) -> Result<(), Error> {
        let path = format!("/1.0/{folder}/{name}");
        let found = self.api.find(&path).await.map_err(doing("checking shared resources"))?;
        let Some(found) = found.filter(|found| found["config"].get(MARK).is_some()) else { return Ok(()) };
        // In use by others, so it is kept.
        if found["used_by"].as_array().is_some_and(|users| !users.is_empty()) {
            return Ok(());
        }
        self.api.delete(&path).await.map_err(doing("removing shared resources"))
    }

    async fn make(&self, path: &str, body: Value, what: &'static str) -> Result<(), Error> {
        match self.api.change(Method::POST, path, body).await {
            Ok(_) => Ok(()),
            Err(error) if error.already_exists() => Ok(()),
            Err(error) => Err(doing(what)(error)),
        }
    }
}

/// Adds the failed action to an API error.
pub fn doing(what: &str) -> impl FnOnce(ApiError) -> Error {
    let doing = what.to_owned();
    move |error| match error {
        ApiError::Unreachable { .. } => Error::Host {
            problem: format!("{doing}: {error}"),
            remedy: "check the daemon: systemctl status lxd".to_owned(),
        },
        ApiError::Refused { message, .. } => Error::Failed { doing, why: message },
    }
}

/// The modules and mounts required by MicroK8s, according to its documentation.
const MICROK8S_CONFIG: &[(&str, &str)] = &[
    (
        "linux.kernel_modules",
        "ip_vs,ip_vs_rr,ip_vs_wrr,ip_vs_sh,ip_tables,ip6_tables,netlink_diag,nf_nat,overlay,br_netfilter",
    ),
    (
        "raw.lxc",
        "lxc.apparmor.profile=unconfined\nlxc.mount.auto=proc:rw sys:rw cgroup:rw\nlxc.cgroup.devices.allow=a\nlxc.cap.drop=",
    ),
];

fn profile(settings: &LxdSettings, pool: &str, network: &str) -> Value {
    let mut config = Map::new();
    let mut set = |key: &str, value: &str| config.insert(key.to_owned(), json!(value));
    set(MARK, &settings.testbed);
    set("security.nesting", "true");
    if settings.privileged || settings.microk8s {
        set("security.privileged", "true");
    }
    if let Some(cpu) = &settings.limits.cpu {
        set("limits.cpu", cpu);
    }
    if let Some(memory) = &settings.limits.memory {
        set("limits.memory", memory);
    }
    if let Some(processes) = settings.limits.processes {
        set("limits.processes", &processes.to_string());
    }
    if settings.microk8s {
        for (key, value) in MICROK8S_CONFIG {
            set(key, value);
        }
    }
    let mut devices = json!({
        "root": {"type": "disk", "path": "/", "pool": pool},
        "eth0": {"type": "nic", "name": "eth0", "network": network},
    });
    if settings.microk8s {
        devices["kmsg"] = json!({"type": "unix-char", "source": "/dev/kmsg", "path": "/dev/kmsg"});
    }
    json!({"description": "Machines of a flotilla testbed", "config": config, "devices": devices})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lxd::settings::Limits;

    #[test]
    fn the_profile_is_privileged_only_if_needed() {
        let mut settings = LxdSettings::new("default", "/x".into());
        let plain = profile(&settings, "default", "lxdbr0");
        assert_eq!(plain["config"], json!({MARK: "default", "security.nesting": "true"}));
        assert_eq!(plain["devices"]["eth0"]["network"], "lxdbr0");
        settings.limits = Limits { cpu: Some("2".into()), memory: Some("1GiB".into()), processes: Some(500) };
        settings.microk8s = true;
        let full = profile(&settings, "default", "lxdbr0");
        assert_eq!(full["config"]["security.privileged"], "true");
        assert_eq!(full["config"]["limits.processes"], "500");
        assert!(full["config"]["linux.kernel_modules"].as_str().unwrap().contains("br_netfilter"));
        assert_eq!(full["devices"]["kmsg"]["path"], "/dev/kmsg");
    }
}
