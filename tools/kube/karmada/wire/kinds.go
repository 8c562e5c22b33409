package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

var builtIn = scheme.Scheme

const (
	protobuf = "application/vnd.kubernetes.protobuf"
	pods     = `"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}],"restartPolicy":"Always"}}`
	jobs     = `"template":{"spec":{"containers":[{"name":"c","image":"i"}],"restartPolicy":"Never"}}`
	selector = `"selector":{"matchLabels":{"a":"b"}}`
	hook     = `"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"failurePolicy":"Ignore","rules":[{"apiGroups":["none.example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["nones"]}],"clientConfig":{"url":"https://127.0.0.1:1/"}}]`
	regards  = `"involvedObject":{"kind":"ConfigMap","namespace":"default","name":"a"},"reason":"Made","message":"made","type":"Normal"`
)

// What an object of a kind needs beside its name; kinds that need nothing are not here.
var needed = map[string]string{
	"Service":                          `{"spec":{"ports":[{"port":80}]}}`,
	"PersistentVolume":                 `{"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/a"}}}`,
	"PersistentVolumeClaim":            `{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`,
	"Pod":                              `{"spec":{"containers":[{"name":"c","image":"i"}]}}`,
	"PodTemplate":                      `{` + pods + `}`,
	"ReplicationController":            `{"spec":{"replicas":0,"selector":{"a":"b"},` + pods + `}}`,
	"LimitRange":                       `{"spec":{"limits":[{"type":"Container","default":{"cpu":"1"}}]}}`,
	"ResourceQuota":                    `{"spec":{"hard":{"pods":"1000"}}}`,
	"Event":                            `{"metadata":{"namespace":"default"},` + regards + `}`,
	"events.k8s.io/Event":              `{"metadata":{"namespace":"default"},"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"a.example.com/b","reportingInstance":"c","action":"Make","reason":"Made","type":"Normal","regarding":{"kind":"ConfigMap","namespace":"default","name":"a"}}`,
	"Deployment":                       `{"spec":{"replicas":0,` + selector + `,` + pods + `}}`,
	"ReplicaSet":                       `{"spec":{"replicas":0,` + selector + `,` + pods + `}}`,
	"StatefulSet":                      `{"spec":{"replicas":0,"serviceName":"a",` + selector + `,` + pods + `}}`,
	"DaemonSet":                        `{"spec":{` + selector + `,` + pods + `}}`,
	"ControllerRevision":               `{"revision":1,"data":{"a":"b"}}`,
	"Job":                              `{"spec":{"suspend":true,` + jobs + `}}`,
	"CronJob":                          `{"spec":{"schedule":"0 0 1 1 *","suspend":true,"jobTemplate":{"spec":{` + jobs + `}}}}`,
	"HorizontalPodAutoscaler":          `{"spec":{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"a"}}}`,
	"Ingress":                          `{"spec":{"defaultBackend":{"service":{"name":"a","port":{"number":80}}}}}`,
	"IngressClass":                     `{"spec":{"controller":"example.com/a"}}`,
	"NetworkPolicy":                    `{"spec":{"podSelector":{}}}`,
	"PodDisruptionBudget":              `{"spec":{"minAvailable":1,` + selector + `}}`,
	"RoleBinding":                      `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[{"kind":"User","name":"jane","apiGroup":"rbac.authorization.k8s.io"}]}`,
	"ClusterRoleBinding":               `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":[{"kind":"User","name":"jane","apiGroup":"rbac.authorization.k8s.io"}]}`,
	"StorageClass":                     `{"provisioner":"example.com/a"}`,
	"VolumeAttachment":                 `{"spec":{"attacher":"example.com","nodeName":"n","source":{"persistentVolumeName":"pv"}}}`,
	"CSIStorageCapacity":               `{"storageClassName":"a"}`,
	"CSINode":                          `{"spec":{"drivers":[]}}`,
	"VolumeAttributesClass":            `{"driverName":"example.com","parameters":{"a":"b"}}`,
	"PriorityClass":                    `{"value":10}`,
	"EndpointSlice":                    `{"addressType":"IPv4","endpoints":[{"addresses":["10.1.2.3"]}]}`,
	"RuntimeClass":                     `{"handler":"runc"}`,
	"IPAddress":                        `{"metadata":{"name":"10.0.77.7"},"spec":{"parentRef":{"resource":"services","namespace":"default","name":"a"}}}`,
	"ServiceCIDR":                      `{"spec":{"cidrs":["10.77.0.0/16"]}}`,
	"CertificateSigningRequest":        csr,
	"ValidatingWebhookConfiguration":   `{` + hook + `}`,
	"MutatingWebhookConfiguration":     `{` + hook + `}`,
	"ValidatingAdmissionPolicy":        `{"spec":{"failurePolicy":"Ignore","matchConstraints":{"resourceRules":[{"apiGroups":["none.example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["nones"]}]},"validations":[{"expression":"true"}]}}`,
	"ValidatingAdmissionPolicyBinding": `{"spec":{"policyName":"a","validationActions":["Deny"]}}`,
	"MutatingAdmissionPolicy":          `{"spec":{"failurePolicy":"Ignore","reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[{"apiGroups":["none.example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["nones"]}]},"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[]"}}]}}`,
	"MutatingAdmissionPolicyBinding":   `{"spec":{"policyName":"a"}}`,
	"FlowSchema":                       `{"spec":{"priorityLevelConfiguration":{"name":"exempt"},"matchingPrecedence":9000}}`,
	"PriorityLevelConfiguration":       `{"spec":{"type":"Limited","limited":{"nominalConcurrencyShares":1,"limitResponse":{"type":"Reject"}}}}`,
	"DeviceClass":                      `{"spec":{}}`,
	"ResourceClaim":                    `{"spec":{"devices":{}}}`,
	"ResourceClaimTemplate":            `{"spec":{"spec":{"devices":{}}}}`,
	"ResourceSlice":                    `{"spec":{"driver":"example.com","nodeName":"n","pool":{"name":"p","generation":1,"resourceSliceCount":1}}}`,
}

// A kind as the server offers it.
type kind struct {
	gvk        schema.GroupVersionKind
	resource   string
	namespaced bool
}

// offered lists what the server has of a scheme and lets anyone create, change, watch and delete.
func offered(config *rest.Config, known *runtime.Scheme) ([]kind, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		return nil, err
	}
	var kinds []kind
	for _, list := range lists {
		group, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, resource := range list.APIResources {
			gvk := group.WithKind(resource.Kind)
			if strings.Contains(resource.Name, "/") || !known.Recognizes(gvk) || !hasAll(resource.Verbs) {
				continue
			}
			kinds = append(kinds, kind{gvk, resource.Name, resource.Namespaced})
		}
	}
	return kinds, nil
}

func hasAll(verbs []string) bool {
	for _, wanted := range []string{"create", "get", "list", "watch", "update", "patch", "delete"} {
		if !strings.Contains(" "+strings.Join(verbs, " ")+" ", " "+wanted+" ") {
			return false
		}
	}
	return true
}

func builtInKinds(ctx context.Context, config *rest.Config) error {
	kinds, err := offered(config, scheme.Scheme)
	if err != nil {
		return err
	}
	// Nothing else is accepted, so that an answer in JSON is an error and not an oversight.
	config.ContentType, config.AcceptContentTypes = protobuf, protobuf
	var complaints []error
	count := 0
	for _, kind := range kinds {
		client, err := clientFor(config, kind.gvk.GroupVersion(), scheme.Codecs.WithoutConversion())
		if err != nil {
			return err
		}
		if err := exercise(ctx, client, scheme.Scheme, kind, needed); err != nil {
			complaints = append(complaints, fmt.Errorf("\n  %s: %w", kind.gvk, err))
		}
		count++
	}
	if count < 40 {
		complaints = append(complaints, fmt.Errorf("only %d kinds are offered", count))
	}
	return errors.Join(complaints...)
}

func clientFor(config *rest.Config, version schema.GroupVersion, codecs runtime.NegotiatedSerializer) (*rest.RESTClient, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion = &version
	config.NegotiatedSerializer = codecs
	config.APIPath = "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	return rest.RESTClientFor(config)
}

// exercise takes one object of a kind through its life while a watch looks on.
func exercise(ctx context.Context, client rest.Interface, known *runtime.Scheme, kind kind, templates map[string]string) error {
	name := "wire-" + strings.ToLower(kind.gvk.Kind)
	object, err := minimal(known, kind, name, templates)
	if err != nil {
		return fmt.Errorf("the program's own template: %w", err)
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	name = accessor.GetName()
	namespace := ""
	if kind.namespaced {
		namespace = "default"
	}
	list, err := known.New(kind.gvk.GroupVersion().WithKind(kind.gvk.Kind + "List"))
	if err != nil {
		return err
	}
	in := func(r *rest.Request) *rest.Request {
		return r.NamespaceIfScoped(namespace, kind.namespaced).Resource(kind.resource)
	}
	if err := in(client.Get()).Do(ctx).Into(list); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	since, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	options := metav1.ListOptions{Watch: true, ResourceVersion: since.GetResourceVersion(), FieldSelector: "metadata.name=" + name}
	watching, err := in(client.Get()).VersionedParams(&options, metav1.ParameterCodec).Watch(ctx)
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer watching.Stop()
	into := func() runtime.Object { made, _ := known.New(kind.gvk); return made }
	if err := in(client.Post()).Body(object).Do(ctx).Into(into()); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := expect(ctx, watching, watch.Added, func(metav1.Object) bool { return true }); err != nil {
		return err
	}
	if err := change(ctx, in, client, name, into); err != nil {
		return err
	}
	for _, label := range []string{"updated", "patched", "applied"} {
		has := func(o metav1.Object) bool { return o.GetLabels()[label] == "yes" }
		if err := expect(ctx, watching, watch.Modified, has); err != nil {
			return fmt.Errorf("%s: %w", label, err)
		}
	}
	now := int64(0)
	if err := in(client.Delete()).Name(name).Body(&metav1.DeleteOptions{GracePeriodSeconds: &now}).Do(ctx).Error(); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return expect(ctx, watching, watch.Deleted, func(metav1.Object) bool { return true })
}

func change(ctx context.Context, in func(*rest.Request) *rest.Request, client rest.Interface, name string, into func() runtime.Object) error {
	// A controller may write in between, as it may for any program.
	for attempt := 0; ; attempt++ {
		object := into()
		if err := in(client.Get()).Name(name).Do(ctx).Into(object); err != nil {
			return fmt.Errorf("get: %w", err)
		}
		accessor, _ := meta.Accessor(object)
		labels := accessor.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["updated"] = "yes"
		accessor.SetLabels(labels)
		err := in(client.Put()).Name(name).Body(object).Do(ctx).Into(into())
		if err == nil {
			break
		}
		if attempt == 5 || !strings.Contains(err.Error(), "the object has been modified") {
			return fmt.Errorf("update: %w", err)
		}
	}
	patch := []byte(`{"metadata":{"labels":{"patched":"yes"}}}`)
	if err := in(client.Patch(types.MergePatchType)).Name(name).Body(patch).Do(ctx).Into(into()); err != nil {
		return fmt.Errorf("patch: %w", err)
	}
	version, name2 := kindOf(into())
	applied := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"applied":"yes"}}}`, version, name2, name)
	request := in(client.Patch(types.ApplyPatchType)).Name(name).Param("fieldManager", "wire").Body([]byte(applied))
	if err := request.Do(ctx).Into(into()); err != nil {
		return fmt.Errorf("apply: %w", err)
	}
	return nil
}

// expect waits for an event with an object as wanted; others may come before.
func expect(ctx context.Context, watching watch.Interface, wanted watch.EventType, holds func(metav1.Object) bool) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the watch showed no such %s", wanted)
		case event, open := <-watching.ResultChan():
			if !open {
				return fmt.Errorf("the watch ended before %s", wanted)
			}
			if event.Type == watch.Error {
				return fmt.Errorf("the watch says: %w", apierrors.FromObject(event.Object))
			}
			accessor, err := meta.Accessor(event.Object)
			if err != nil {
				return err
			}
			if event.Type == wanted && holds(accessor) {
				return nil
			}
		}
	}
}

func minimal(known *runtime.Scheme, kind kind, name string, templates map[string]string) (runtime.Object, error) {
	object, err := known.New(kind.gvk)
	if err != nil {
		return nil, err
	}
	template, found := templates[kind.gvk.Group+"/"+kind.gvk.Kind]
	if !found {
		template = templates[kind.gvk.Kind]
	}
	if template != "" {
		if err := json.Unmarshal([]byte(template), object); err != nil {
			return nil, err
		}
	}
	object.GetObjectKind().SetGroupVersionKind(kind.gvk)
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	if accessor.GetName() == "" {
		accessor.SetName(name)
	}
	return object, nil
}
