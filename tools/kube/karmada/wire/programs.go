package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	appsapply "k8s.io/client-go/applyconfigurations/apps/v1"
	coreapply "k8s.io/client-go/applyconfigurations/core/v1"
	metaapply "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/dynamic"
	clientinformers "k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func typed(config *rest.Config) (*kubernetes.Clientset, error) {
	config.ContentType, config.AcceptContentTypes = protobuf, protobuf
	return kubernetes.NewForConfig(config)
}

// bookmarks reads a list as a stream, which ends with a bookmark that says so, and goes on from there.
func bookmarks(ctx context.Context, config *rest.Config) error {
	client, err := typed(config)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps("default")
	for _, name := range []string{"wire-a", "wire-b"} {
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"wire": "bookmarks"}}}
		if _, err := maps.Create(ctx, made, metav1.CreateOptions{}); err != nil {
			return err
		}
		defer func() { _ = maps.Delete(context.WithoutCancel(ctx), name, metav1.DeleteOptions{}) }()
	}
	yes := true
	watching, err := maps.Watch(ctx, metav1.ListOptions{
		LabelSelector: "wire=bookmarks", AllowWatchBookmarks: true, SendInitialEvents: &yes,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		return err
	}
	defer watching.Stop()
	added := 0
	for event := range watching.ResultChan() {
		switch event.Type {
		case watch.Added:
			added++
		case watch.Bookmark:
			bookmark, is := event.Object.(*corev1.ConfigMap)
			if !is || bookmark.ResourceVersion == "" {
				return fmt.Errorf("a bookmark is a %T without a version", event.Object)
			}
			if bookmark.Annotations[metav1.InitialEventsAnnotationKey] != "true" || added != 2 {
				return fmt.Errorf("after %d objects came a bookmark with %v", added, bookmark.Annotations)
			}
			return nil
		default:
			return fmt.Errorf("an event %s: %v", event.Type, event.Object)
		}
	}
	return errors.New("the watch ended")
}

// informers keep a cache of every kind the factory knows a few of, and follow changes.
func informers(ctx context.Context, config *rest.Config) error {
	client, err := typed(config)
	if err != nil {
		return err
	}
	factory := clientinformers.NewSharedInformerFactory(client, 0)
	maps := factory.Core().V1().ConfigMaps()
	var deleted atomic.Int64
	if _, err := maps.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(any) { deleted.Add(1) }}); err != nil {
		return err
	}
	factory.Core().V1().Pods().Informer()
	factory.Core().V1().Nodes().Informer()
	factory.Core().V1().Services().Informer()
	factory.Apps().V1().Deployments().Informer()
	factory.Rbac().V1().ClusterRoles().Informer()
	factory.Coordination().V1().Leases().Informer()
	factory.Discovery().V1().EndpointSlices().Informer()
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("the cache of %s does not fill", kind)
		}
	}
	api := client.CoreV1().ConfigMaps("default")
	for number := range 20 {
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("wire-informed-%d", number)}, Data: map[string]string{"a": "1"}}
		if _, err := api.Create(ctx, made, metav1.CreateOptions{}); err != nil {
			return err
		}
		made.Data["a"] = "2"
		if _, err := api.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	err = poll(ctx, func() bool {
		seen := 0
		for number := range 20 {
			found, err := maps.Lister().ConfigMaps("default").Get(fmt.Sprintf("wire-informed-%d", number))
			if err == nil && found.Data["a"] == "2" {
				seen++
			}
		}
		return seen == 20
	})
	if err != nil {
		return fmt.Errorf("the cache does not follow: %w", err)
	}
	for number := range 20 {
		if err := api.Delete(ctx, fmt.Sprintf("wire-informed-%d", number), metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return poll(ctx, func() bool { return deleted.Load() == 20 })
}

// apply lets two managers meet on one field.
func apply(ctx context.Context, config *rest.Config) error {
	client, err := typed(config)
	if err != nil {
		return err
	}
	api := client.AppsV1().Deployments("default")
	defer func() { _ = api.Delete(context.WithoutCancel(ctx), "wire-applied", metav1.DeleteOptions{}) }()
	labels := map[string]string{"app": "wire"}
	wanted := func(replicas int32) *appsapply.DeploymentApplyConfiguration {
		return appsapply.Deployment("wire-applied", "default").WithSpec(appsapply.DeploymentSpec().WithReplicas(replicas).
			WithSelector(metaapply.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(coreapply.PodTemplateSpec().WithLabels(labels).
				WithSpec(coreapply.PodSpec().WithContainers(coreapply.Container().WithName("c").WithImage("i")))))
	}
	made, err := api.Apply(ctx, wanted(1), metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		return err
	}
	if made.Spec.RevisionHistoryLimit == nil {
		return errors.New("what was applied has no defaults")
	}
	_, err = api.Apply(ctx, wanted(2), metav1.ApplyOptions{FieldManager: "two"})
	if !apierrors.IsConflict(err) {
		return fmt.Errorf("a second manager gets %v instead of a conflict", err)
	}
	made, err = api.Apply(ctx, wanted(2), metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil || *made.Spec.Replicas != 2 {
		return fmt.Errorf("with force: %v %w", made.Spec.Replicas, err)
	}
	extracted, err := appsapply.ExtractDeployment(made, "two")
	if err != nil || extracted.Spec.Replicas == nil || *extracted.Spec.Replicas != 2 {
		return fmt.Errorf("the manager's own fields cannot be read back: %w", err)
	}
	return nil
}

// election moves the lead from one candidate to the next when the first lets go of it.
func election(ctx context.Context, config *rest.Config) error {
	client, err := typed(config)
	if err != nil {
		return err
	}
	defer func() {
		_ = client.CoordinationV1().Leases("default").Delete(context.WithoutCancel(ctx), "wire-lead", metav1.DeleteOptions{})
	}()
	leads := make(chan string, 2)
	campaign := func(ctx context.Context, name string) error {
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, "default", "wire-lead", client.CoreV1(), client.CoordinationV1(),
			resourcelock.ResourceLockConfig{Identity: name})
		if err != nil {
			return err
		}
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 200 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leads <- name }, OnStoppedLeading: func() {},
			},
		})
		if err != nil {
			return err
		}
		go elector.Run(ctx)
		return nil
	}
	first, end := context.WithCancel(ctx)
	defer end()
	for _, candidate := range []struct {
		ctx  context.Context
		name string
	}{{first, "one"}, {ctx, "two"}} {
		if err := campaign(candidate.ctx, candidate.name); err != nil {
			return err
		}
		if candidate.name == "one" {
			if got := <-leads; got != "one" {
				return fmt.Errorf("%s leads", got)
			}
		}
	}
	end()
	select {
	case got := <-leads:
		if got != "two" {
			return fmt.Errorf("%s leads", got)
		}
		return nil
	case <-ctx.Done():
		return errors.New("nobody takes the lead over")
	}
}

// discover reads everything the server has in the two requests of aggregated discovery.
func discover(_ context.Context, config *rest.Config) error {
	var requests atomic.Int64
	config.Wrap(counting(&requests))
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	groups, resources, err := client.Discovery().ServerGroupsAndResources()
	if err != nil {
		return err
	}
	if len(groups) < 20 || len(resources) < 20 {
		return fmt.Errorf("%d groups and %d versions", len(groups), len(resources))
	}
	if requests.Load() != 2 {
		return fmt.Errorf("%d requests were needed", requests.Load())
	}
	document, err := client.Discovery().OpenAPISchema()
	if err != nil {
		return fmt.Errorf("the schemas in protobuf: %w", err)
	}
	if len(document.Definitions.AdditionalProperties) < 300 {
		return fmt.Errorf("%d schemas", len(document.Definitions.AdditionalProperties))
	}
	return nil
}

var (
	ships   = schema.GroupVersionResource{Group: "wire.example.com", Version: "v1", Resource: "ships"}
	shipGVK = ships.GroupVersion().WithKind("Ship")
)

const shipDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"ships.wire.example.com"},
"spec":{"group":"wire.example.com","scope":"Namespaced","names":{"plural":"ships","singular":"ship","kind":"Ship","listKind":"ShipList"},
"versions":[{"name":"v1","served":true,"storage":true,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"crew":{"type":"integer"}}},"status":{"type":"object","properties":{"crew":{"type":"integer"}}}}}}}]}}`

// manager is an operator as people write them: a custom resource owns a Deployment and shows its state.
func manager(ctx context.Context, config *rest.Config) error {
	dynamics, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	definition := &unstructured.Unstructured{}
	if err := definition.UnmarshalJSON([]byte(shipDefinition)); err != nil {
		return err
	}
	definitions := dynamics.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if _, err := definitions.Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		return err
	}
	defer func() {
		_ = definitions.Delete(context.WithoutCancel(ctx), definition.GetName(), metav1.DeleteOptions{})
	}()
	fleet := dynamics.Resource(ships).Namespace("default")
	if err := poll(ctx, func() bool { _, err := fleet.List(ctx, metav1.ListOptions{}); return err == nil }); err != nil {
		return fmt.Errorf("the custom resource is not served: %w", err)
	}
	operator, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "wire-operator", LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return err
	}
	ship := &unstructured.Unstructured{}
	ship.SetGroupVersionKind(shipGVK)
	err = ctrl.NewControllerManagedBy(operator).For(ship).Owns(&appsv1.Deployment{}).Complete(crewer(operator.GetClient(), operator.GetScheme()))
	if err != nil {
		return err
	}
	running, end := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- operator.Start(running) }()
	ship.SetNamespace("default")
	ship.SetName("wire")
	ship.Object["spec"] = map[string]any{"crew": int64(3)}
	if _, err := fleet.Create(ctx, ship, metav1.CreateOptions{}); err != nil {
		end()
		return err
	}
	err = poll(ctx, func() bool {
		found, err := fleet.Get(ctx, "wire", metav1.GetOptions{})
		if err != nil {
			return false
		}
		crew, _, _ := unstructured.NestedInt64(found.Object, "status", "crew")
		return crew == 3
	})
	end()
	return errors.Join(err, <-done)
}

func crewer(api client.Client, known *runtime.Scheme) reconcile.Func {
	return func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		ship := &unstructured.Unstructured{}
		ship.SetGroupVersionKind(shipGVK)
		if err := api.Get(ctx, request.NamespacedName, ship); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		crew, _, _ := unstructured.NestedInt64(ship.Object, "spec", "crew")
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "wire-" + ship.GetName(), Namespace: ship.GetNamespace()}}
		_, err := controllerutil.CreateOrUpdate(ctx, api, deployment, func() error {
			replicas := int32(crew)
			labels := map[string]string{"ship": ship.GetName()}
			deployment.Spec.Replicas = &replicas
			deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
			deployment.Spec.Template.Labels = labels
			if len(deployment.Spec.Template.Spec.Containers) == 0 {
				deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
			}
			return controllerutil.SetControllerReference(ship, deployment, known)
		})
		if err != nil {
			return reconcile.Result{}, err
		}
		before := ship.DeepCopy()
		if err := unstructured.SetNestedField(ship.Object, int64(*deployment.Spec.Replicas), "status", "crew"); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, api.Status().Patch(ctx, ship, client.MergeFrom(before))
	}
}

func poll(ctx context.Context, holds func() bool) error {
	return wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) { return holds(), nil })
}
