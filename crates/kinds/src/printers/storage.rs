//! Rows of the storage group: classes, drivers, attachments, capacity.

use serde_json::Value;

use super::cells::{age_of, str_of, text_or};
use super::{AGE, NAME, PrinterTable, boolean, integer, text};

pub(super) fn table(kind: &str) -> Option<PrinterTable> {
    Some(match kind {
        "StorageClass" => STORAGE_CLASS,
        "VolumeAttachment" => VOLUME_ATTACHMENT,
        "VolumeAttributesClass" => VOLUME_ATTRIBUTES_CLASS,
        "CSIDriver" => CSI_DRIVER,
        "CSINode" => CSI_NODE,
        _ => return None,
    })
}

const STORAGE_CLASS: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Provisioner", "Who makes volumes of this class."),
        text("ReclaimPolicy", "What becomes of a volume when its claim goes."),
        text("VolumeBindingMode", "Whether a volume is made at once or when a pod needs it."),
        text("AllowVolumeExpansion", "Whether a volume can grow."),
        AGE,
    ],
    |class, now| {
        let marks = ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
        let default = marks.iter().any(|mark| class.annotation(mark) == Some("true"));
        vec![
            format!("{}{}", class.name(), if default { " (default)" } else { "" }).into(),
            class.str_at(&["provisioner"]).into(),
            text_or(class.str_at(&["reclaimPolicy"]), "Delete").into(),
            text_or(class.str_at(&["volumeBindingMode"]), "Immediate").into(),
            class.bool_at(&["allowVolumeExpansion"]).unwrap_or(false).into(),
            age_of(class, now),
        ]
    },
);

const VOLUME_ATTACHMENT: PrinterTable = PrinterTable::new(
    &[
        NAME,
        text("Attacher", "The driver that attaches the volume.").as_name(),
        text("PV", "The volume to attach."),
        text("Node", "The node to attach it to."),
        boolean("Attached", "Whether it is attached."),
        AGE,
    ],
    |attachment, now| {
        vec![
            attachment.name().into(),
            attachment.str_at(&["spec", "attacher"]).into(),
            attachment.str_at(&["spec", "source", "persistentVolumeName"]).into(),
            attachment.str_at(&["spec", "nodeName"]).into(),
            attachment.bool_at(&["status", "attached"]).unwrap_or(false).into(),
            age_of(attachment, now),
        ]
    },
);

const VOLUME_ATTRIBUTES_CLASS: PrinterTable =
    PrinterTable::new(&[NAME, text("DriverName", "The driver the class belongs to."), AGE], |class, now| {
        vec![class.name().into(), class.str_at(&["driverName"]).into(), age_of(class, now)]
    });

const CSI_DRIVER: PrinterTable = PrinterTable::new(
    &[
        NAME,
        boolean("AttachRequired", "Whether volumes are attached before they are mounted."),
        boolean("PodInfoOnMount", "Whether the driver receives the pod it mounts for."),
        boolean("StorageCapacity", "Whether the driver publishes its free capacity."),
        text("TokenRequests", "The audiences of the tokens the driver gets."),
        boolean("RequiresRepublish", "Whether the driver wants to refresh mounts."),
        text("Modes", "Which kinds of volume the driver serves."),
        AGE,
    ],
    |driver, now| {
        let flag = |key: &str, otherwise: bool| Value::from(driver.bool_at(&["spec", key]).unwrap_or(otherwise));
        let tokens = driver.get(&["spec", "tokenRequests"]).and_then(Value::as_array);
        let tokens = tokens.map_or_else(
            || "<unset>".to_owned(),
            |tokens| tokens.iter().map(|t| str_of(t, "audience")).collect::<Vec<_>>().join(","),
        );
        let modes = driver.items(&["spec", "volumeLifecycleModes"]).iter().filter_map(Value::as_str);
        vec![
            driver.name().into(),
            flag("attachRequired", true),
            flag("podInfoOnMount", false),
            flag("storageCapacity", false),
            tokens.into(),
            flag("requiresRepublish", false),
            text_or(&modes.collect::<Vec<_>>().join(","), "<none>").into(),
            age_of(driver, now),
        ]
    },
);

const CSI_NODE: PrinterTable =
    PrinterTable::new(&[NAME, integer("Drivers", "How many drivers the node has."), AGE], |node, now| {
        vec![node.name().into(), node.items(&["spec", "drivers"]).len().into(), age_of(node, now)]
    });
