//go:build tools

// Package tools names the pinned programs, so that the module file keeps everything they are built from.
package tools

import (
	_ "github.com/karmada-io/karmada/cmd/agent"
	_ "github.com/karmada-io/karmada/cmd/aggregated-apiserver"
	_ "github.com/karmada-io/karmada/cmd/controller-manager"
	_ "github.com/karmada-io/karmada/cmd/karmadactl"
	_ "github.com/karmada-io/karmada/cmd/scheduler"
	_ "github.com/karmada-io/karmada/cmd/webhook"
)
