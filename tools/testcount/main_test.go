package main

import (
	"strings"
	"testing"
)

func TestCounter(t *testing.T) {
	const events = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"    chatter\n"}
{"Action":"pass","Package":"p","Test":"TestGood","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestAbsent","Output":"=== RUN   TestAbsent\n"}
{"Action":"output","Package":"p","Test":"TestAbsent","Output":"    x_test.go:1: SKIPPED: no Slurm\n"}
{"Action":"skip","Package":"p","Test":"TestAbsent","Elapsed":0}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p","Elapsed":0.1}
{"Action":"output","Package":"q","Test":"TestBad","Output":"    y_test.go:2: wrong\n"}
{"Action":"fail","Package":"q","Test":"TestBad","Elapsed":0}
{"Action":"output","Package":"q","Test":"TestHung","Output":"goroutine 7 [sleep]\n"}
{"Action":"output","Package":"q","Output":"FAIL\tq\t0.1s\n"}
{"Action":"fail","Package":"q","Elapsed":0.1}
{"Action":"skip","Package":"none","Elapsed":0}
something in plain text
`
	var out strings.Builder
	c := counter{out: &out, output: map[key]*strings.Builder{}}
	if err := c.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	if c.passed != 1 || c.failed != 1 || c.skipped != 1 || c.packages != 2 || c.failedPackages != 1 {
		t.Errorf("counted %d passed, %d failed, %d skipped in %d packages, %d failed", c.passed, c.failed, c.skipped, c.packages, c.failedPackages)
	}
	for _, want := range []string{"ok  \tp\t0.1s\n", "SKIPPED: no Slurm\n", "y_test.go:2: wrong\n", "goroutine 7", "FAIL\tq", "something in plain text\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output does not have %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "chatter") {
		t.Errorf("the output has what a test that passed said:\n%s", out.String())
	}
}
