package ioaware

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseLicenses(t *testing.T) {
	for text, want := range map[string]map[string]int64{
		"lustre:200": {"lustre": 200}, "matlab,lustre:7": {"matlab": 1, "lustre": 7}, "lustre": {"lustre": 1}, "lustre2:5": {"lustre2": 5}, "": nil,
		"lustre:x": nil, "lustre:-1": nil, "a:1;lustre:3": {"a": 1, "lustre": 3}, " a:2 , b ": {"a": 2, "b": 1}, "lustre:0": {"lustre": 0}, "a:99999999999": nil,
	} {
		if diff := cmp.Diff(want, ParseLicenses(text)); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", text, diff)
		}
	}
}
