//go:build tools

// Package tools names the pinned programs, so that the module file keeps everything they are built from. Those that are
// content with the libraries of Karmada are here too: what is compiled for one is there for the next.
package tools

import (
	_ "github.com/karmada-io/karmada/cmd/agent"
	_ "github.com/karmada-io/karmada/cmd/aggregated-apiserver"
	_ "github.com/karmada-io/karmada/cmd/controller-manager"
	_ "github.com/karmada-io/karmada/cmd/descheduler"
	_ "github.com/karmada-io/karmada/cmd/karmada-search"
	_ "github.com/karmada-io/karmada/cmd/karmadactl"
	_ "github.com/karmada-io/karmada/cmd/metrics-adapter"
	_ "github.com/karmada-io/karmada/cmd/scheduler"
	_ "github.com/karmada-io/karmada/cmd/scheduler-estimator"
	_ "github.com/karmada-io/karmada/cmd/webhook"
	_ "helm.sh/helm/v4/cmd/helm"
)
