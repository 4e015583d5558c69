package rpc

import (
	"reflect"
	"testing"

	"rmreplay/internal/slurmspec"
)

// Every supported release has a complete table, and the node's side of every version that its
// slurmctld may speak to a node.
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
		for n := k.Oldest; n <= k.Driver; n++ {
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
