// Command testcount runs `go test -json` with its arguments and prints what a
// person wants of it: the result of each package, the output of each failed test,
// the reason of each skipped one, and at the end a line of counts.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcount:", err)
	}
	os.Exit(code)
}

// run returns the exit status of go test.
func run(args []string, out io.Writer) (int, error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	c := counter{out: out, output: map[key]*strings.Builder{}}
	readErr := c.read(events)
	err = cmd.Wait()
	c.show(fmt.Sprintf("tests: %d passed, %d failed, %d skipped, in %d packages; %d packages failed\n",
		c.passed, c.failed, c.skipped, c.packages, c.failedPackages))
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), readErr
	case err != nil:
		return 1, err
	case readErr != nil:
		return 1, readErr
	}
	return 0, nil
}

// event is a line of test2json (go doc test2json).
type event struct {
	Action, Package, ImportPath, Test, Output string
}

type key struct{ pkg, test string }

// counter counts tests, subtests among them, and shows what matters.
type counter struct {
	out                                               io.Writer
	output                                            map[key]*strings.Builder // of tests that have not ended
	passed, failed, skipped, packages, failedPackages int
}

// show prints; who has closed our output still gets the exit status.
func (c *counter) show(text string) { _, _ = io.WriteString(c.out, text) }

func (c *counter) read(events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				c.show(string(line)) // go test says some things in plain text
			} else {
				c.event(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *counter) event(e event) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		c.show(e.Output)
	case "output":
		if e.Test == "" && shown(e.Output) {
			c.show(e.Output)
			return
		}
		if c.output[k] == nil {
			c.output[k] = &strings.Builder{}
		}
		c.output[k].WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			c.endPackage(e)
		} else {
			c.endTest(e)
		}
		delete(c.output, k)
	}
}

// shown reports whether a line of a package is its result.
func shown(line string) bool {
	return strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "FAIL\t")
}

func (c *counter) endPackage(e event) {
	switch e.Action {
	case "pass":
		c.packages++
	case "fail":
		c.packages++
		c.failedPackages++
		// What was said outside a test, or by tests that a panic or a time-out cut off.
		for k, text := range c.output {
			if k.pkg == e.Package {
				c.show(text.String())
				delete(c.output, k)
			}
		}
	}
}

func (c *counter) endTest(e event) {
	text := ""
	if b := c.output[key{e.Package, e.Test}]; b != nil {
		text = b.String()
	}
	switch e.Action {
	case "pass":
		c.passed++
	case "fail":
		c.failed++
		c.show(text)
	case "skip":
		c.skipped++
		c.show(withoutProgress(text))
	}
}

// withoutProgress removes the lines that only say that a test began.
func withoutProgress(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "=== ") {
			b.WriteString(line)
		}
	}
	return b.String()
}
