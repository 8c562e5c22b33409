//! Measures `flotilla server` beside kube-apiserver on etcd: same machine, same run, same load.

fn main() {}
