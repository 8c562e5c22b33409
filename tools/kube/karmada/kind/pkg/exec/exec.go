// Package exec has the part of kind's API that Karmada's suite uses: the output of a command, by lines.
package exec

import (
	"os/exec"
	"strings"
)

// Cmd is a command to run.
type Cmd interface {
	Output() ([]byte, error)
}

// Command returns a command; the suite asks `docker` for the address of a cluster, which tools/kube/karmada/suite answers.
func Command(name string, arguments ...string) Cmd { return exec.Command(name, arguments...) }

// OutputLines runs a command and returns the lines of its output.
func OutputLines(command Cmd) ([]string, error) {
	output, err := command.Output()
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimRight(string(output), "\n"), "\n"), nil
}
