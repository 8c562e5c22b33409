package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	karmada "github.com/karmada-io/karmada/pkg/generated/clientset/versioned"
	karmadascheme "github.com/karmada-io/karmada/pkg/generated/clientset/versioned/scheme"
	generated "github.com/karmada-io/karmada/pkg/generated/informers/externalversions"
)

const selects = `"resourceSelectors":[{"apiVersion":"v1","kind":"ConfigMap","name":"nothing-of-this-name"}]`

// What Karmada's kinds need beside their names.
var karmadas = map[string]string{
	"Cluster":                                 `{"spec":{"syncMode":"Pull"}}`,
	"PropagationPolicy":                       `{"spec":{` + selects + `}}`,
	"ClusterPropagationPolicy":                `{"spec":{` + selects + `}}`,
	"OverridePolicy":                          `{"spec":{` + selects + `}}`,
	"ClusterOverridePolicy":                   `{"spec":{` + selects + `}}`,
	"FederatedResourceQuota":                  `{"spec":{"overall":{"cpu":"10"}}}`,
	"ClusterTaintPolicy":                      `{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`,
	"Work":                                    `{"spec":{"workload":{"manifests":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}]}}}`,
	"ResourceBinding":                         `{"spec":{"resource":{"apiVersion":"v1","kind":"ConfigMap","namespace":"default","name":"nothing-of-this-name"}}}`,
	"ClusterResourceBinding":                  `{"spec":{"resource":{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","name":"nothing-of-this-name"}}}`,
	"ResourceInterpreterCustomization":        `{"spec":{"target":{"apiVersion":"wire.example.com/v1","kind":"Boat"},"customizations":{"replicaResource":{"luaScript":"function GetReplicas(obj)\n  return 1, nil\nend"}}}}`,
	"ResourceInterpreterWebhookConfiguration": `{"webhooks":[{"name":"a.example.com","interpreterContextVersions":["v1alpha1"],"rules":[{"operations":["InterpretReplica"],"apiGroups":["wire.example.com"],"apiVersions":["v1"],"kinds":["Boat"]}],"clientConfig":{"url":"https://127.0.0.1:1/"}}]}`,
	"MultiClusterIngress":                     `{"spec":{"defaultBackend":{"service":{"name":"a","port":{"number":80}}}}}`,
	"MultiClusterService":                     `{"spec":{"types":["CrossCluster"]}}`,
	"FederatedHPA":                            `{"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"},"minReplicas":1,"maxReplicas":3,"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}`,
	"CronFederatedHPA":                        `{"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"},"rules":[{"name":"a","schedule":"0 0 1 1 *","targetReplicas":1,"suspend":true}]}}`,
	"WorkloadRebalancer":                      `{"spec":{"workloads":[{"apiVersion":"apps/v1","kind":"Deployment","namespace":"default","name":"nothing-of-this-name"}]}}`,
	"Remedy":                                  `{"spec":{"decisionMatches":[{"clusterConditionMatch":{"conditionType":"ServiceDomainNameResolutionReady","operator":"Equal","conditionStatus":"False"}}],"actions":["TrafficControl"]}}`,
	"ResourceRegistry":                        `{"spec":{"targetCluster":{"clusterNames":["a"]},"resourceSelectors":[{"apiVersion":"v1","kind":"Pod"}]}}`,
}

func karmadaKinds(ctx context.Context, config *rest.Config) error {
	kinds, err := offered(config, karmadascheme.Scheme)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	var complaints []error
	for _, kind := range kinds {
		seen[kind.gvk.Kind] = true
		client, err := clientFor(config, kind.gvk.GroupVersion(), karmadascheme.Codecs.WithoutConversion())
		if err != nil {
			return err
		}
		if err := exercise(ctx, client, karmadascheme.Scheme, kind, karmadas); err != nil {
			complaints = append(complaints, fmt.Errorf("\n  %s: %w", kind.gvk, err))
		}
	}
	for kind := range karmadas {
		if !seen[kind] {
			complaints = append(complaints, fmt.Errorf("\n  %s is not offered", kind))
		}
	}
	return errors.Join(complaints...)
}

func karmadaInformers(ctx context.Context, config *rest.Config) error {
	client, err := karmada.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := generated.NewSharedInformerFactory(client, 0)
	kinds, err := offered(config, karmadascheme.Scheme)
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		informer, err := factory.ForResource(kind.gvk.GroupVersion().WithResource(kind.resource))
		if err != nil {
			return err
		}
		informer.Informer()
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the cache of %s does not fill", kind)
		}
	}
	return nil
}

func kindOf(object runtime.Object) (string, string) {
	for _, known := range []*runtime.Scheme{karmadascheme.Scheme, builtIn} {
		if kinds, _, err := known.ObjectKinds(object); err == nil {
			return kinds[0].GroupVersion().String(), kinds[0].Kind
		}
	}
	return "", ""
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return r(request) }

func counting(requests *atomic.Int64) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			requests.Add(1)
			return next.RoundTrip(request)
		})
	}
}
