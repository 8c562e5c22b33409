// Command wire talks to a server the way programs written in Go do, and says what such programs would stumble over.
//
// It uses the official clients: client-go with nothing but protobuf accepted for built-in kinds, its informers and its
// leader election; controller-runtime; and Karmada's generated clients. Each check prints one line. KUBECONFIG names the
// server.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A check is one way of talking to the server.
type check struct {
	name string
	run  func(context.Context, *rest.Config) error
}

var checks = []check{
	{"built-in kinds in protobuf", builtInKinds},
	{"initial events and bookmarks in protobuf", bookmarks},
	{"informers in protobuf", informers},
	{"typed server-side apply", apply},
	{"leader election", election},
	{"discovery", discover},
	{"a controller-runtime manager", manager},
	{"Karmada's kinds", karmadaKinds},
	{"Karmada's informers", karmadaInformers},
}

func main() {
	only := flag.String("only", "", "run this check alone")
	limit := flag.Duration("timeout", 2*time.Minute, "how long each check may take")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	// The server is to be tried, not the client's patience.
	config.QPS, config.Burst = 500, 1000
	config.WarningHandler = rest.NoWarnings{}
	failed := false
	for _, check := range checks {
		if *only != "" && *only != check.name {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), *limit)
		started := time.Now()
		err := check.run(ctx, rest.CopyConfig(config))
		cancel()
		if err != nil {
			failed = true
			fmt.Printf("FAILED %s: %v\n", check.name, err)
			continue
		}
		fmt.Printf("ok %s (%d ms)\n", check.name, time.Since(started).Milliseconds())
	}
	if failed {
		os.Exit(1)
	}
}
