package rpc

import (
	"reflect"
	"strings"
	"testing"

	"rmreplay/internal/slurmspec"
)

// Every supported release has a complete table. slurmctld speaks three versions to nodes: its
// oldest version before a node registers, then the node's version, and its own version in repeated
// messages. The node's side of each of these versions must be there.
func TestProtocolsOfReleases(t *testing.T) {
	for _, k := range slurmspec.Releases {
		if k.Driver == 0 {
			continue
		}
		p := protocolOf(Version(k.Release.DriverProtocol()))
		if p == nil || p.own == nil {
			t.Fatalf("%v: the driver's protocol is not known", k.Release)
		}
		requireComplete(t, *p.own)
		for n := k.Oldest; n <= k.Number; n++ {
			p := protocolOf(Version(n << 8))
			if p == nil {
				t.Fatalf("%v: protocol %d is not known", k.Release, n)
			}
			requireComplete(t, *p)
			requireComplete(t, p.skipGRES)
		}
	}
}

// requireComplete fails the test if a function of a table is missing.
func requireComplete(t *testing.T, table any) {
	t.Helper()
	v := reflect.ValueOf(table)
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Func && v.Field(i).IsNil() {
			t.Errorf("%v has no %s", v.Type(), v.Type().Field(i).Name)
		}
	}
}

// The table of a repeated version refuses a message that slurmctld does not repeat, instead of
// misreading it.
func TestNotRepeated(t *testing.T) {
	for _, typ := range []Type{RequestBatchLaunch, RequestLaunchProlog, RequestSuspendInt, RequestRebootNodes} {
		body := make([]byte, 500)
		if err := decodeBody(typ, V2605, body); err == nil || !strings.Contains(err.Error(), "only to nodes of its own release") {
			t.Errorf("%v: error %v", typ, err)
		}
	}
}
