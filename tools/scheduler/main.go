// Command scheduler asks Karmada's own scheduler for its decisions, so that ours can be held to them.
//
// It reads cases, one JSON object per line, and writes each with what came out.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"sort"

	"k8s.io/client-go/tools/cache"

	clusterv1alpha1 "github.com/karmada-io/karmada/pkg/apis/cluster/v1alpha1"
	workv1alpha2 "github.com/karmada-io/karmada/pkg/apis/work/v1alpha2"
	clusterlister "github.com/karmada-io/karmada/pkg/generated/listers/cluster/v1alpha1"
	schedulercache "github.com/karmada-io/karmada/pkg/scheduler/cache"
	"github.com/karmada-io/karmada/pkg/scheduler/core"
	"github.com/karmada-io/karmada/pkg/scheduler/framework"
	"github.com/karmada-io/karmada/pkg/scheduler/framework/plugins"
)

type testCase struct {
	Clusters []clusterv1alpha1.Cluster           `json:"clusters"`
	Spec     workv1alpha2.ResourceBindingSpec   `json:"spec"`
	Status   workv1alpha2.ResourceBindingStatus `json:"status"`
}

func decide(line []byte) (string, error) {
	var c testCase
	if err := json.Unmarshal(line, &c); err != nil {
		return "", err
	}
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for i := range c.Clusters {
		if err := indexer.Add(&c.Clusters[i]); err != nil {
			return "", err
		}
	}
	bindings := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	schedCache := schedulercache.NewCache(clusterlister.NewClusterLister(indexer), bindings, 0)
	algorithm, err := core.NewGenericScheduler(schedCache, plugins.NewInTreeRegistry())
	if err != nil {
		return "", err
	}
	result, err := algorithm.Schedule(context.Background(), &c.Spec, &c.Status, &core.ScheduleAlgorithmOption{})
	var fit *framework.FitError
	switch {
	case errors.As(err, &fit):
		return "no cluster fits", nil
	case err != nil:
		return err.Error(), nil
	}
	targets := result.SuggestedClusters
	sort.Slice(targets, func(i, j int) bool { return targets[i].Name < targets[j].Name })
	text := ""
	for i, t := range targets {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s:%d", t.Name, t.Replicas)
	}
	return text, nil
}

func main() {
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(make([]byte, 1<<20), 1<<24)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for scanner.Scan() {
		result, err := decide(scanner.Bytes())
		if err != nil {
			log.Fatal(err)
		}
		var c map[string]any
		if err := json.Unmarshal(scanner.Bytes(), &c); err != nil {
			log.Fatal(err)
		}
		c["expected"] = result
		line, err := json.Marshal(c)
		if err != nil {
			log.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	if err := scanner.Err(); err != nil {
		log.Fatal(err)
	}
}
