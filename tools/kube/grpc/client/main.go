// Command client uses the manager as a program in Go does: with the code that the usual generators make of its proto files.
//
// It signs in, calls typed clients of protoc-gen-go-grpc, and serves the API once more through the handlers of
// protoc-gen-grpc-gateway, whose answers must be those of the manager's own REST API. Each check prints one line.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"flotilla.dev/tools/kube/grpc/api"
)

// session is a signed-in user of a manager.
type session struct {
	address string
	tls     *tls.Config
	token   string
}

// bearer adds a token to calls.
type bearer string

func (token bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(token)}, nil
}

func (bearer) RequireTransportSecurity() bool { return true }

func (session *session) dial(options ...grpc.DialOption) (*grpc.ClientConn, error) {
	options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(session.tls)))
	return grpc.NewClient(session.address, options...)
}

func (session *session) signIn(ctx context.Context, user, password string) error {
	connection, err := session.dial()
	if err != nil {
		return err
	}
	defer connection.Close()
	sessions := api.NewSessionServiceClient(connection)
	if _, err := sessions.WhoAmI(ctx, &api.WhoAmIRequest{}); status.Code(err) != codes.Unauthenticated {
		return fmt.Errorf("without a token: %v", err)
	}
	answer, err := sessions.Login(ctx, &api.LoginRequest{User: user, Password: password})
	if err != nil {
		return err
	}
	if answer.GetExpireTime().AsTime().Before(time.Now()) {
		return fmt.Errorf("the token has expired at %s", answer.GetExpireTime().AsTime())
	}
	session.token = answer.GetToken()
	return nil
}

func typedCalls(ctx context.Context, session *session) error {
	connection, err := session.dial(grpc.WithPerRPCCredentials(bearer(session.token)))
	if err != nil {
		return err
	}
	defer connection.Close()
	list, err := api.NewInstanceServiceClient(connection).ListInstances(ctx, &api.ListInstancesRequest{PageSize: 1})
	if err != nil {
		return err
	}
	if list.GetTotal() < 1 || list.GetInstances()[0].GetState() != api.State_STATE_RUNNING {
		return fmt.Errorf("instances: %v", list)
	}
	access := api.NewAccessServiceClient(connection)
	wanted := &api.Group{Name: "from-go", Members: []string{"root"}}
	created, err := access.CreateGroup(ctx, &api.CreateGroupRequest{Group: wanted})
	if err != nil {
		return err
	}
	if created.GetEtag() == "" || created.GetMembers()[0] != "root" {
		return fmt.Errorf("created: %v", created)
	}
	_, err = access.DeleteGroup(ctx, &api.AccessDeleteRequest{Name: "from-go"})
	return err
}

func failures(ctx context.Context, session *session) error {
	connection, err := session.dial(grpc.WithPerRPCCredentials(bearer(session.token)))
	if err != nil {
		return err
	}
	defer connection.Close()
	instances := api.NewInstanceServiceClient(connection)
	_, err = instances.GetInstance(ctx, &api.GetInstanceRequest{Name: "none"})
	failed := status.Convert(err)
	if failed.Code() != codes.NotFound {
		return fmt.Errorf("a missing instance: %v", err)
	}
	for _, detail := range failed.Details() {
		if info, is := detail.(*errdetails.ErrorInfo); is && info.GetReason() != "" {
			return nil
		}
	}
	return fmt.Errorf("no reason in the details: %v", failed.Details())
}

func streams(ctx context.Context, session *session) error {
	connection, err := session.dial(grpc.WithPerRPCCredentials(bearer(session.token)))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch, err := api.NewInstanceServiceClient(connection).WatchInstances(ctx, &api.WatchInstancesRequest{})
	if err != nil {
		return err
	}
	event, err := watch.Recv()
	if err != nil {
		return err
	}
	if event.GetInstance().GetName() == "" {
		return fmt.Errorf("an event without an instance: %v", event)
	}
	cancel()
	for err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Canceled {
		return fmt.Errorf("after the call was cancelled: %v", err)
	}
	return nil
}

func run() error {
	address := flag.String("address", "", "HOST:PORT of the manager")
	authority := flag.String("ca", "", "file with its CA")
	instance := flag.String("instance", "", "a running instance")
	limit := flag.Duration("timeout", 3*time.Minute, "how long all checks may take")
	flag.Parse()
	pem, err := os.ReadFile(*authority)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return errors.New("the CA is not in PEM")
	}
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	signedIn := &session{address: *address, tls: &tls.Config{RootCAs: pool}}
	if err := signedIn.signIn(ctx, os.Getenv("MANAGER_USER"), os.Getenv("MANAGER_PASSWORD")); err != nil {
		return fmt.Errorf("signing in: %w", err)
	}
	checks := []struct {
		name string
		run  func(context.Context, *session) error
	}{
		{"typed calls", typedCalls},
		{"failures have details", failures},
		{"streams", streams},
		{"answers of the gateway", func(ctx context.Context, session *session) error {
			return gateway(ctx, session, *instance)
		}},
	}
	failed := false
	for _, check := range checks {
		if err := check.run(ctx, signedIn); err != nil {
			failed = true
			fmt.Printf("FAILED %s: %v\n", check.name, err)
			continue
		}
		fmt.Printf("ok %s\n", check.name)
	}
	if failed {
		return errors.New("not all checks succeeded")
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
