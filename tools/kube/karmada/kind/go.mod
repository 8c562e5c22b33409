// A stand-in for kind: the suite replaces the module by this one, so that new clusters are real API servers without Docker.
module sigs.k8s.io/kind

go 1.24
