//go:build tools

// Package tools names the pinned simulator of nodes, so that the module file keeps everything it is built from.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
