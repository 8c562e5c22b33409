// Package cluster has the part of kind's API that Karmada's suite uses. Clusters are made by tools/kube/karmada/suite.
package cluster

import (
	"fmt"
	"os"
	"os/exec"
)

// Provider creates and deletes clusters.
type Provider struct{}

// CreateOption changes how a cluster is created.
type CreateOption func(*options)

type options struct{ kubeconfig string }

// NewProvider returns a Provider.
func NewProvider() *Provider { return &Provider{} }

// CreateWithKubeconfigPath sets the file to which the kubeconfig is written.
func CreateWithKubeconfigPath(path string) CreateOption {
	return func(o *options) { o.kubeconfig = path }
}

// Create starts a cluster and returns when its API server is ready.
func (*Provider) Create(name string, settings ...CreateOption) error {
	var o options
	for _, set := range settings {
		set(&o)
	}
	return suite("create-cluster", name, o.kubeconfig)
}

// Delete stops a cluster.
func (*Provider) Delete(name, _ string) error { return suite("delete-cluster", name) }

func suite(action string, arguments ...string) error {
	script, directory := os.Getenv("SUITE_SCRIPT"), os.Getenv("SUITE_DIR")
	if script == "" || directory == "" {
		return fmt.Errorf("%s: SUITE_SCRIPT and SUITE_DIR are not set", action)
	}
	output, err := exec.Command(script, append([]string{action, directory}, arguments...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %v: %w: %s", action, arguments, err, output)
	}
	return nil
}
