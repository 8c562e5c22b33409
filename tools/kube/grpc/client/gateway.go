package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"flotilla.dev/tools/kube/grpc/api"
)

const (
	base = "/flotilla/manager/v1alpha1"
	// Answers that change between two requests are compared again.
	attempts = 5
	pause    = 50 * time.Millisecond
)

// changing has the ends of paths whose answers are other ones each time: samples, times of calls, the calls themselves.
var changing = []string{"/audit", "/metrics/samples", "/access-tokens"}

var register = []func(context.Context, *runtime.ServeMux, *grpc.ClientConn) error{
	api.RegisterAccessServiceHandler,
	api.RegisterAuditServiceHandler,
	api.RegisterBackupServiceHandler,
	api.RegisterClusterServiceHandler,
	api.RegisterEventServiceHandler,
	api.RegisterExplainServiceHandler,
	api.RegisterInstanceServiceHandler,
	api.RegisterIntegrationServiceHandler,
	api.RegisterMetricServiceHandler,
	api.RegisterPolicyServiceHandler,
	api.RegisterResourceServiceHandler,
	api.RegisterSearchServiceHandler,
	api.RegisterSessionServiceHandler,
	api.RegisterWorkloadServiceHandler,
}

// request is one call over REST.
type request struct {
	method, path, body string
}

// reads returns a request for each RPC that only reads and is not a stream, with every path it has.
func reads(instance string) []request {
	var found []request
	add := func(rule *annotations.HttpRule) {
		if path := rule.GetGet(); path != "" && !slices.ContainsFunc(changing, func(end string) bool {
			return strings.HasSuffix(path, end)
		}) {
			found = append(found, request{http.MethodGet, filled(path, instance), ""})
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("flotilla.manager.v1alpha1", func(file protoreflect.FileDescriptor) bool {
		for at := range file.Services().Len() {
			methods := file.Services().Get(at).Methods()
			for at := range methods.Len() {
				method := methods.Get(at)
				rule, is := proto.GetExtension(method.Options(), annotations.E_Http).(*annotations.HttpRule)
				if !is || method.IsStreamingServer() {
					continue
				}
				add(rule)
				for _, more := range rule.GetAdditionalBindings() {
					add(more)
				}
			}
		}
		return true
	})
	return found
}

// filled replaces the parameters of a path; all but the instance name nothing that exists.
func filled(path, instance string) string {
	parts := strings.Split(path, "/")
	for at, part := range parts {
		open, end := strings.Index(part, "{"), strings.Index(part, "}")
		if open < 0 || end < open {
			continue
		}
		value := "none"
		if at > 0 && parts[at-1] == "instances" {
			value = instance
		}
		parts[at] = part[:open] + value + part[end+1:]
	}
	return strings.Join(parts, "/")
}

// gateway serves the API through generated handlers and compares it with the manager's own.
func gateway(ctx context.Context, session *session, instance string) error {
	connection, err := session.dial()
	if err != nil {
		return err
	}
	defer connection.Close()
	mux := runtime.NewServeMux()
	for _, register := range register {
		if err := register(ctx, mux, connection); err != nil {
			return err
		}
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: session.tls, ForceAttemptHTTP2: true}}
	requests := append(reads(instance),
		request{http.MethodGet, base + "/instances?pageSize=1&order_by=name%20desc&filter=east", ""},
		request{http.MethodGet, base + "/instances?pageSize=-1", ""},
		request{http.MethodGet, base + "/search?query=kind:ns&includeObjects=true", ""},
		request{http.MethodPost, base + "/search", `{"query": "kind:ns name:kube-system", "page_size": 2}`},
		request{http.MethodPost, base + "/permissions:check", `{"permission": "objects.read", "instance": "` + instance + `"}`},
		request{http.MethodPost, base + "/groups", `{"name": "Not A Name"}`},
		request{http.MethodPost, base + "/instances", `{"name": "` + instance + `"}`},
		request{http.MethodDelete, base + "/instances/" + instance, ""},
	)
	if len(requests) < 60 {
		return fmt.Errorf("only %d requests", len(requests))
	}
	var problems []string
	for _, request := range requests {
		if problem := compare(ctx, client, session, server.URL, request); problem != "" {
			problems = append(problems, problem)
		}
	}
	if problems != nil {
		return fmt.Errorf("%d of %d differ:\n%s", len(problems), len(requests), strings.Join(problems, "\n"))
	}
	return nil
}

type answer struct {
	code int
	kind string
	body any
	text string
}

func compare(ctx context.Context, client *http.Client, session *session, gateway string, request request) string {
	problem := ""
	for range attempts {
		through, err := ask(ctx, client, session.token, gateway, request)
		if err != nil {
			return err.Error()
		}
		direct, err := ask(ctx, client, session.token, "https://"+session.address, request)
		if err != nil {
			return err.Error()
		}
		if through.code == direct.code && reflect.DeepEqual(through.body, direct.body) {
			return ""
		}
		problem = fmt.Sprintf("%s %s\n  gateway %d %s\n  direct  %d %s",
			request.method, request.path, through.code, through.text, direct.code, direct.text)
		time.Sleep(pause)
	}
	return problem
}

func ask(ctx context.Context, client *http.Client, token, server string, request request) (*answer, error) {
	made, err := http.NewRequestWithContext(ctx, request.method, server+request.path, strings.NewReader(request.body))
	if err != nil {
		return nil, err
	}
	made.Header.Set("Authorization", "Bearer "+token)
	made.Header.Set("Content-Type", "application/json")
	response, err := client.Do(made)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	found := &answer{code: response.StatusCode, kind: response.Header.Get("Content-Type"), text: string(text)}
	if json.Unmarshal(text, &found.body) != nil {
		found.body = found.text
	}
	// Both have the code and the message of the failure; the details may be in another order or form.
	if fields, is := found.body.(map[string]any); is && found.code >= 400 {
		delete(fields, "details")
	}
	found.body = withoutNulls(found.body)
	return found, nil
}

// withoutNulls removes what has no value: messages that are not set are null in one form of JSON and left out in the other.
func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if field == nil {
				delete(value, key)
				continue
			}
			value[key] = withoutNulls(field)
		}
	case []any:
		for at := range value {
			value[at] = withoutNulls(value[at])
		}
	}
	return value
}
