//go:build tools

// Package tools names the pinned client of registries, so that the module file keeps everything it is built from.
package tools

import _ "github.com/google/go-containerregistry/cmd/crane"
