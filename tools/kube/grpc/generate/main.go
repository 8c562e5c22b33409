// Command generate runs protoc plugins on a set of descriptors, as protoc does.
//
// usage: generate DESCRIPTORS DIRECTORY PLUGIN...
package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	module = "flotilla.dev/tools/kube/grpc"
	// Where the code of our files goes; the plugins get it as an option, so that the proto files name no language.
	target  = module + "/api"
	own     = "flotilla/"
	apis    = "google.golang.org/genproto/googleapis/api/"
	library = "google.golang.org/protobuf/types/"
)

// foreign has the Go packages of files that others generate.
var foreign = map[string]string{
	"google/api/annotations.proto":     apis + "annotations",
	"google/api/http.proto":            apis + "annotations",
	"google/api/httpbody.proto":        apis + "httpbody",
	"google/protobuf/any.proto":        library + "known/anypb",
	"google/protobuf/descriptor.proto": library + "descriptorpb",
	"google/protobuf/duration.proto":   library + "known/durationpb",
	"google/protobuf/empty.proto":      library + "known/emptypb",
	"google/protobuf/field_mask.proto": library + "known/fieldmaskpb",
	"google/protobuf/struct.proto":     library + "known/structpb",
	"google/protobuf/timestamp.proto":  library + "known/timestamppb",
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: generate DESCRIPTORS DIRECTORY PLUGIN...")
		os.Exit(2)
	}
	for _, plugin := range os.Args[3:] {
		if err := run(os.Args[1], os.Args[2], plugin); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", filepath.Base(plugin), err)
			os.Exit(1)
		}
	}
}

// request returns what protoc would send to a plugin.
func request(descriptors string) (*pluginpb.CodeGeneratorRequest, error) {
	encoded, err := os.ReadFile(descriptors)
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(encoded, &set); err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{ProtoFile: set.File}
	options := []string{"module=" + module}
	for _, file := range set.File {
		name := file.GetName()
		path, known := foreign[name]
		if strings.HasPrefix(name, own) {
			request.FileToGenerate = append(request.FileToGenerate, name)
			path, known = target, true
		}
		if !known {
			return nil, fmt.Errorf("no Go package is known for %s", name)
		}
		options = append(options, "M"+name+"="+path)
	}
	request.Parameter = proto.String(strings.Join(options, ","))
	return request, nil
}

func run(descriptors, directory, plugin string) error {
	request, err := request(descriptors)
	if err != nil {
		return err
	}
	encoded, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	command := exec.Command(plugin)
	command.Stdin, command.Stderr = bytes.NewReader(encoded), os.Stderr
	output, err := command.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, file := range response.File {
		path := filepath.Join(directory, file.GetName())
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(file.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
