package history

import (
	"strings"
	"testing"

	"rmreplay/internal/slurmspec"
)

// TestLifetimes: a lifetime begins with the series Since and ends before the series Until.
func TestLifetimes(t *testing.T) {
	patch := slurmspec.Release{Major: 24, Minor: 5, Patch: 8}
	for _, test := range []struct {
		life    Lifetime
		release slurmspec.Release
		want    bool
		absence string
	}{
		{Lifetime{}, slurmspec.R2205, true, ""},
		{Lifetime{Since: slurmspec.R2405}, slurmspec.R2311, false, "new in 24.05"},
		{Lifetime{Since: slurmspec.R2405}, patch, true, ""},
		{Lifetime{Until: slurmspec.R2405}, slurmspec.R2311, true, ""},
		{Lifetime{Until: slurmspec.R2405}, patch, false, "removed in 24.05"},
		{Lifetime{Since: slurmspec.R2311, Until: slurmspec.R2605}, slurmspec.R2302, false, "new in 23.11"},
		{Lifetime{Since: slurmspec.R2311, Until: slurmspec.R2605}, slurmspec.R2605, false, "removed in 26.05"},
	} {
		if got := test.life.Includes(test.release); got != test.want {
			t.Errorf("%+v includes %v: %v, want %v", test.life, test.release, got, test.want)
		}
		if !test.want {
			if got := test.life.Absence(test.release); got != test.absence {
				t.Errorf("%+v in %v: %q, want %q", test.life, test.release, got, test.absence)
			}
		}
	}
}

// TestRange: each key or option that is found narrows the range, and contradictory ones make it
// empty.
func TestRange(t *testing.T) {
	r := All()
	for _, test := range []struct {
		life     Lifetime
		from, to slurmspec.Release
	}{
		{Lifetime{}, slurmspec.R2011, slurmspec.R2605},
		{Lifetime{Since: slurmspec.R2302}, slurmspec.R2302, slurmspec.R2605},
		{Lifetime{Until: slurmspec.R2505}, slurmspec.R2302, slurmspec.R2411},
		{Lifetime{Since: slurmspec.R2205, Until: slurmspec.R2605}, slurmspec.R2302, slurmspec.R2411},
	} {
		r.See(test.life)
		if r.From != test.from || r.To != test.to || r.Empty() {
			t.Errorf("after %+v: %v, want %v to %v", test.life, r, test.from, test.to)
		}
	}
	if r.See(Lifetime{Until: slurmspec.R2108}); !r.Empty() {
		t.Errorf("%v is not empty", r)
	}
}

// TestTablesAreSound: names of options are in lower case, every entry has a lifetime, and no
// lifetime is empty. An option is in one list only.
func TestTablesAreSound(t *testing.T) {
	sound := func(what string, l Lifetime) {
		if l == (Lifetime{}) || !l.Since.IsZero() && !l.Until.IsZero() && l.Since.Compare(l.Until) >= 0 {
			t.Errorf("%s: the lifetime %+v", what, l)
		}
	}
	for key, l := range Keys {
		sound(key, l)
	}
	for key, l := range Attributes {
		sound(key, l)
	}
	for name, p := range Plugins {
		sound(name, p.Lifetime)
		if name != strings.ToLower(name) {
			t.Errorf("plugin %s is not in lower case", name)
		}
	}
	for key, list := range Options {
		for name, o := range list.Some {
			sound(key+" "+name, o.Lifetime)
			if name != strings.ToLower(name) {
				t.Errorf("%s: option %s is not in lower case", key, name)
			}
			for _, always := range list.Always {
				if always == name {
					t.Errorf("%s: %s is known always and sometimes", key, name)
				}
			}
		}
		if list.Refused != (list.Always != nil) {
			t.Errorf("%s: refused without a complete list, or the reverse", key)
		}
	}
	for key := range Successors {
		if _, ok := Keys[key]; !ok {
			t.Errorf("%s has a successor, and all releases know it", key)
		}
	}
}

func TestNoPlugin(t *testing.T) {
	for _, test := range []struct {
		name    string
		release slurmspec.Release
		want    bool
	}{
		{"preempt/none", slurmspec.R2302, false}, {"preempt/none", slurmspec.R2311, true},
		{"topology/default", slurmspec.R2411, false}, {"topology/default", slurmspec.R2505, true},
		{"topology/flat", slurmspec.R2605, false}, {"select/cons_tres", slurmspec.R2605, false},
	} {
		if got := NoPlugin(test.name, test.release); got != test.want {
			t.Errorf("%s in %v stands for no plugin: %v, want %v", test.name, test.release, got, test.want)
		}
	}
}

// TestComplete checks the values that a replay on a release has and slurm.conf lacks.
func TestComplete(t *testing.T) {
	old, site := slurmspec.R2205, slurmspec.R2411
	for _, c := range []struct {
		conf                map[string]string
		on, from, to        slurmspec.Release
		kind, params, order string
	}{
		{nil, old, old, site, "select/linear", "", "priority/basic"},
		{nil, site, old, site, "select/cons_tres", "CR_Core_Memory", "priority/multifactor"},
		{nil, old, site, site, "select/cons_tres", "CR_Core_Memory", "priority/multifactor"},
		{nil, site, old, old, "select/linear", "", "priority/basic"},
		{map[string]string{"SelectType": "select/cons_tres"}, old, old, old, "select/cons_tres", "CR_Core_Memory", "priority/basic"},
		{map[string]string{"SelectType": "select/cons_res", "SelectTypeParameters": "CR_Core"}, site, old, old,
			"select/cons_tres", "CR_Core", "priority/basic"},
		{map[string]string{"SelectType": "select/cons_res", "PriorityType": "priority/multifactor"}, old, old, old,
			"select/cons_res", "CR_Core_Memory", "priority/multifactor"},
		{map[string]string{"SelectType": "select/linear"}, site, old, old, "select/linear", "", "priority/basic"},
	} {
		get := Complete(func(key string) (string, bool) { v, set := c.conf[key]; return v, set }, c.on, c.from, c.to)
		value := func(key string) string { v, _ := get(key); return v }
		kind, params, order := value("SelectType"), value("SelectTypeParameters"), value("PriorityType")
		if kind != c.kind || params != c.params || order != c.order || value("KillWait") != "" {
			t.Errorf("%v on %s, of a site with %s to %s: %s, %q, %s; want %s, %q, %s",
				c.conf, c.on, c.from, c.to, kind, params, order, c.kind, c.params, c.order)
		}
	}
}
