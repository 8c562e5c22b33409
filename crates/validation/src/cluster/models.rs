//! Resource models: the classes of nodes a member gets when it names none, and the form they are kept in.

use object::Object;
use object::quantity::{Quantity, QuantityFormat};
use serde_json::{Value, json};

const GIB: i64 = 1024 * 1024 * 1024;
/// Lower bound of each grade: CPU cores and GiB of memory. The last grade has no upper bound.
const CLASSES: [(i64, i64); 9] =
    [(0, 0), (1, 4), (2, 16), (4, 32), (8, 64), (16, 128), (32, 256), (64, 512), (128, 1024)];

pub fn defaults() -> Value {
    let grades = CLASSES.iter().enumerate().map(|(grade, (cpu, memory))| {
        let next = CLASSES.get(grade + 1);
        let cpu_max = next.map_or(i64::MAX, |(cpu, _)| *cpu);
        let memory_max = next.map_or(i64::MAX, |(_, memory)| memory * GIB);
        json!({ "grade": grade, "ranges": [
            range("cpu", *cpu, cpu_max, QuantityFormat::DecimalSi),
            range("memory", memory * GIB, memory_max, QuantityFormat::BinarySi),
        ] })
    });
    grades.collect()
}

fn range(name: &str, min: i64, max: i64, format: QuantityFormat) -> Value {
    let text = |value: i64| Quantity::new(value, format).to_string();
    json!({ "name": name, "min": text(min), "max": text(max) })
}

/// In order of grades, from nothing to without end.
pub fn standardize(cluster: &mut Object) {
    let spec = cluster.as_map_mut().get_mut("spec");
    let models = spec.and_then(|spec| spec.get_mut("resourceModels")).and_then(Value::as_array_mut);
    let Some(models) = models else { return };
    models.sort_by_key(|model| model["grade"].as_i64());
    if let Some(first) = models.first_mut() {
        set_bound(first, "min", 0);
    }
    if let Some(last) = models.last_mut() {
        set_bound(last, "max", i64::MAX);
    }
}

fn set_bound(model: &mut Value, bound: &str, value: i64) {
    for range in model.get_mut("ranges").and_then(Value::as_array_mut).into_iter().flatten() {
        // The family of suffixes stays the one it was written in.
        let format = range[bound].as_str().and_then(|text| Quantity::parse(text).ok());
        let format = format.map_or(QuantityFormat::DecimalSi, |quantity| quantity.format());
        range[bound] = Quantity::new(value, format).to_string().into();
    }
}
