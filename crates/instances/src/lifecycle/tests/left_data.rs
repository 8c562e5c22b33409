//! Instances that are deleted while the replica with their data is lost.

use cluster_client::{DeleteOptions, ListOptions, Patch};

use super::*;

/// The instance runs on `a`, which is lost; `b` leads.
struct Lost {
    world: World,
    data_dir: TempDir,
    b: Replica,
}

impl Lost {
    async fn new() -> Self {
        let world = World::new();
        let two = Two::start(&world).await;
        let Two { a, b, terms, answers } = two;
        let data_dir = a.end().await;
        answers.store(false, Ordering::Release);
        terms[0].end();
        terms[1].begin(Fence::unlimited());
        world.until("DataMissing", "").await;
        Self { world, data_dir, b }
    }

    async fn delete(&self) {
        let client = self.world.api.client();
        client.delete(World::target(), DeleteOptions::default()).await.expect("deleted");
        let gone = async {
            while client.find(World::target()).await.expect("answers").is_some() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(WAIT, gone).await.expect("it is removed");
    }

    /// Returns when the first replica is back and has looked for data to remove.
    async fn come_back(self) -> (TempDir, usize) {
        let Self { world, data_dir, b } = self;
        let own = ReplicaName { name: "a".to_owned(), address: "a:5443".to_owned() };
        let replicas: Arc<dyn OtherReplicas> = Arc::new(OneOfTwo { own, answers: Arc::default() });
        let replica_context = ReplicaContext { replicas: Some(replicas), terms: TermFence::default() };
        let back = world.start_as(data_dir, replica_context);
        back.lifecycle.discard_left_data().await.expect("looked");
        let data_dir = back.end().await;
        b.end().await;
        (data_dir, world.records().await)
    }
}

impl World {
    async fn records(&self) -> usize {
        let records = ResourceRef::within(&builtin::config_maps(), INSTANCE_NAMESPACE);
        self.api.client().list_all(records, ListOptions::default()).await.expect("listed").items.len()
    }
}

fn in_trash(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root.join("trash")).into_iter().flatten();
    entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn data_of_an_instance_deleted_meanwhile_is_moved_to_the_trash() {
    let lost = Lost::new().await;
    lost.delete().await;
    assert!(data(lost.data_dir.path()).exists());
    assert_eq!(lost.world.records().await, 1);
    let (data_dir, records) = lost.come_back().await;
    assert!(!data(data_dir.path()).exists());
    let trash = in_trash(data_dir.path());
    assert!(trash.len() == 1 && trash[0].ends_with(&format!("_east_{UID}")), "{trash:?}");
    assert_eq!(records, 0, "it is done");
}

#[tokio::test(start_paused = true)]
async fn data_of_a_kept_control_plane_stays() {
    let lost = Lost::new().await;
    let kept = Patch::merge(json!({"metadata": {"labels": {LABEL_KEEP: "true"}}}));
    lost.world.api.client().patch(World::target(), kept, WriteOptions::default()).await.expect("patched");
    lost.delete().await;
    let (data_dir, records) = lost.come_back().await;
    assert!(data(data_dir.path()).exists());
    assert_eq!((in_trash(data_dir.path()).len(), records), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn data_of_an_instance_that_exists_is_never_removed() {
    let lost = Lost::new().await;
    let instance = lost.world.instance().await;
    let replica = ReplicaName { name: "a".to_owned(), address: "a:5443".to_owned() };
    super::super::left_data::record(&lost.world.api.client(), &instance, &replica).await.expect("recorded");
    let (data_dir, records) = lost.come_back().await;
    assert!(data(data_dir.path()).exists());
    assert_eq!((in_trash(data_dir.path()).len(), records), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn data_without_a_record_stays() {
    let lost = Lost::new().await;
    lost.delete().await;
    let client = lost.world.api.client();
    let record = ResourceRef::namespaced(&builtin::config_maps(), INSTANCE_NAMESPACE, &format!("left-data-{UID}"));
    client.delete(record, DeleteOptions::default()).await.expect("it was there");
    let (data_dir, _) = lost.come_back().await;
    assert!(data(data_dir.path()).exists());
}
