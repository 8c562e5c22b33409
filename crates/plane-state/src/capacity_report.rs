//! The capacity of a member in the form its agent reports it: compressed shards of nodes and quotas.
//!
//! A node belongs to one shard, by the hash of its name, so that a change of one node changes one shard. A shard names the
//! number of shards there are: shards of an older division are not mixed with those of a newer one.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::io::{Read, Write};

use api::capacity::{ClusterNodes, NodeCapacity, QuotaCapacity};
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};

/// Nodes, and namespaces with quotas, that a shard is made for.
const ENTRIES_PER_SHARD: usize = 500;
/// Shards of one member. Kubernetes is tested with 5,000 nodes; this is enough for six times as many.
pub const SHARDS_MAX: usize = 64;
/// A shard as it is sent and stored.
pub const SHARD_BYTES_MAX: usize = 512 << 10;
/// A shard as it is read.
const PLAIN_BYTES_MAX: usize = 2 << 20;

/// A part of a member's capacity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityShard {
    pub shard: usize,
    pub shards: usize,
    #[serde(default)]
    nodes: Vec<NodeCapacity>,
    #[serde(default)]
    quotas: BTreeMap<String, Vec<QuotaCapacity>>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    #[error("the capacity does not fit into {SHARDS_MAX} shards of {PLAIN_BYTES_MAX} bytes")]
    TooLarge,
    #[error("not a capacity report: {0}")]
    Malformed(String),
}

/// Divides a capacity into shards, encoded but not yet compressed.
pub fn divide(capacity: &ClusterNodes) -> Result<Vec<Vec<u8>>, ReportError> {
    let entries = capacity.nodes.len() + capacity.quotas.len();
    let mut shards = entries.div_ceil(ENTRIES_PER_SHARD).max(1).next_power_of_two();
    while shards <= SHARDS_MAX {
        let encoded = divide_into(capacity, shards)?;
        if encoded.iter().all(|shard| shard.len() <= PLAIN_BYTES_MAX) {
            return Ok(encoded);
        }
        shards *= 2;
    }
    Err(ReportError::TooLarge)
}

fn divide_into(capacity: &ClusterNodes, shards: usize) -> Result<Vec<Vec<u8>>, ReportError> {
    let new = |shard| CapacityShard { shard, shards, ..CapacityShard::default() };
    let mut divided: Vec<CapacityShard> = (0..shards).map(new).collect();
    for node in &capacity.nodes {
        divided[shard_of(&node.name, shards)].nodes.push(node.clone());
    }
    for (namespace, quotas) in &capacity.quotas {
        divided[shard_of(namespace, shards)].quotas.insert(namespace.clone(), quotas.clone());
    }
    let encode = |mut shard: CapacityShard| {
        // The order in which nodes are listed is no change.
        shard.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        serde_json::to_vec(&shard).map_err(|error| ReportError::Malformed(error.to_string()))
    };
    divided.into_iter().map(encode).collect()
}

/// Must not change: an agent of another version divides alike, and rewrites nothing.
fn shard_of(name: &str, shards: usize) -> usize {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        fn finish(&self) -> u64 {
            self.0
        }
    }
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.write(name.as_bytes());
    (hash.finish() % shards.max(1) as u64) as usize
}

/// Compresses an encoded shard.
pub fn compress(encoded: &[u8]) -> Result<Vec<u8>, ReportError> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let written = encoder.write_all(encoded).and_then(|()| encoder.finish());
    let bytes = written.map_err(|error| ReportError::Malformed(error.to_string()))?;
    if bytes.len() > SHARD_BYTES_MAX { Err(ReportError::TooLarge) } else { Ok(bytes) }
}

/// Reads a compressed shard from an untrusted sender.
pub fn read(bytes: &[u8]) -> Result<CapacityShard, ReportError> {
    if bytes.len() > SHARD_BYTES_MAX {
        return Err(ReportError::TooLarge);
    }
    let mut plain = Vec::new();
    let mut decoder = ZlibDecoder::new(bytes).take(PLAIN_BYTES_MAX as u64 + 1);
    decoder.read_to_end(&mut plain).map_err(|error| ReportError::Malformed(error.to_string()))?;
    if plain.len() > PLAIN_BYTES_MAX {
        return Err(ReportError::TooLarge);
    }
    let shard: CapacityShard =
        serde_json::from_slice(&plain).map_err(|error| ReportError::Malformed(error.to_string()))?;
    if shard.shards > SHARDS_MAX || shard.shard >= shard.shards {
        return Err(ReportError::Malformed(format!("shard {} of {}", shard.shard, shard.shards)));
    }
    Ok(shard)
}

/// The newest shards of one member.
#[derive(Debug, Default)]
pub struct ReportedShards {
    shards: BTreeMap<usize, CapacityShard>,
}

impl ReportedShards {
    pub fn put(&mut self, shard: CapacityShard) {
        self.shards.insert(shard.shard, shard);
    }

    pub fn remove(&mut self, shard: usize) {
        self.shards.remove(&shard);
    }

    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Returns the whole capacity; `None` while a shard of the newest division is missing. Senders write the first shard last.
    pub fn whole(&self) -> Option<ClusterNodes> {
        let of = self.shards.get(&0)?.shards;
        let current: Vec<&CapacityShard> = self.shards.values().filter(|shard| shard.shards == of).collect();
        if current.len() != of {
            return None;
        }
        let mut whole = ClusterNodes::default();
        for shard in current {
            whole.nodes.extend(shard.nodes.iter().cloned());
            whole.quotas.extend(shard.quotas.clone());
        }
        whole.nodes.sort_by(|a, b| a.name.cmp(&b.name));
        Some(whole)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn capacity(nodes: usize) -> ClusterNodes {
        let node = |number: usize| NodeCapacity {
            name: format!("node-{number:05}"),
            labels: [("kubernetes.io/hostname".to_owned(), format!("node-{number:05}"))].into(),
            allocatable: [("cpu".to_owned(), 8000), ("pods".to_owned(), 110)].into(),
            ..NodeCapacity::default()
        };
        let quota = QuotaCapacity { free: [("cpu".to_owned(), -5)].into(), ..QuotaCapacity::default() };
        ClusterNodes { nodes: (0..nodes).map(node).collect(), quotas: [("team".to_owned(), vec![quota])].into() }
    }

    fn sent(capacity: &ClusterNodes) -> Vec<CapacityShard> {
        let read = |shard: &Vec<u8>| read(&compress(shard).expect("small")).expect("readable");
        divide(capacity).expect("divided").iter().map(read).collect()
    }

    #[test]
    fn sharded_capacity_round_trips() {
        for nodes in [0, 1, 499, 5000] {
            let capacity = capacity(nodes);
            let mut shards = ReportedShards::default();
            for shard in sent(&capacity).into_iter().rev() {
                assert_eq!(shards.whole(), None);
                shards.put(shard);
            }
            assert_eq!(shards.whole(), Some(capacity));
        }
    }

    #[test]
    fn a_change_of_one_node_changes_one_shard() {
        let mut capacity = capacity(5000);
        let before: BTreeSet<Vec<u8>> = divide(&capacity).expect("divided").into_iter().collect();
        capacity.nodes[77].requested = [("cpu".to_owned(), 100)].into();
        capacity.nodes.reverse();
        let after: BTreeSet<Vec<u8>> = divide(&capacity).expect("divided").into_iter().collect();
        assert_eq!((after.len(), after.difference(&before).count()), (16, 1));
    }

    #[test]
    fn shards_of_two_divisions_are_not_mixed() {
        let (few, many) = (capacity(10), capacity(700));
        let mut shards = ReportedShards::default();
        shards.put(sent(&few).remove(0));
        let [first, second] = <[CapacityShard; 2]>::try_from(sent(&many)).expect("two");
        shards.put(second);
        assert_eq!(shards.whole().as_ref(), Some(&few));
        shards.put(first);
        assert_eq!(shards.whole().as_ref(), Some(&many));
        shards.put(sent(&few).remove(0));
        assert_eq!(shards.whole(), Some(few));
    }

    #[test]
    fn reports_are_bounded() {
        let bomb = compress(&vec![b' '; PLAIN_BYTES_MAX + 1]).expect("spaces compress well");
        assert_eq!(read(&bomb), Err(ReportError::TooLarge));
        assert_eq!(read(&vec![0; SHARD_BYTES_MAX + 1]), Err(ReportError::TooLarge));
        let refused = |text: &str| read(&compress(text.as_bytes()).expect("small")).is_err();
        assert!(refused("{}") && refused(r#"{"shard": 1, "shards": 1}"#) && refused(r#"{"shard": 0, "shards": 65}"#));
        assert!(read(b"not compressed").is_err());
        let mut huge = capacity(1);
        huge.nodes[0].labels.insert("a".to_owned(), "x".repeat(PLAIN_BYTES_MAX));
        assert_eq!(divide(&huge), Err(ReportError::TooLarge));
    }
}
