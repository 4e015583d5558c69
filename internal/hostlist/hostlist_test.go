package hostlist

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	tests := []struct {
		expr string
		want string // names, separated by blanks
	}{
		{"", ""},
		{"n1", "n1"},
		{"n[1-4,07-09],m1", "n1 n2 n3 n4 n07 n08 n09 m1"},
		{"rack[0-1]n[1-3]", "rack0n1 rack0n2 rack0n3 rack1n1 rack1n2 rack1n3"},
		{"n[9-11]", "n9 n10 n11"},
		{"n[09-11]", "n09 n10 n11"},
		{"n[098-101]", "n098 n099 n100 n101"},
		{"n[3,1,3]", "n3 n1 n3"},
		{"127.1.0.[1-2],127.1.1.[1-2]", "127.1.0.1 127.1.0.2 127.1.1.1 127.1.1.2"},
		{"r[1-2]-ib", "r1-ib r2-ib"},
		{"a,,b, c\td\n", "a b c d"},
		{"[1-2]", "1 2"},
		{"x[1][2]y", "x12y"},
	}
	for _, tt := range tests {
		got, err := Expand(tt.expr)
		if err != nil {
			t.Errorf("Expand(%q): %v", tt.expr, err)
			continue
		}
		if diff := cmp.Diff(strings.Fields(tt.want), got); diff != "" && len(got)+len(tt.want) > 0 {
			t.Errorf("Expand(%q): (-want +got)\n%s", tt.expr, diff)
		}
		if n, err := Count(tt.expr); n != len(got) || err != nil {
			t.Errorf("Count(%q) = %d, %v; want %d", tt.expr, n, err, len(got))
		}
		var visited []string
		if err := Visit(tt.expr, func(name []byte) { visited = append(visited, string(name)) }); err != nil ||
			strings.Join(visited, " ") != tt.want {
			t.Errorf("Visit(%q): %q, %v; want %q", tt.expr, visited, err, tt.want)
		}
	}
}

func TestExpandErrors(t *testing.T) {
	tests := []struct{ expr, want string }{
		{"n[1-4", `'[' without ']'`},
		{"n1-4]", `']' without '['`},
		{"n[1-[2]]", `'[' inside brackets`},
		{"n[]", `empty brackets`},
		{"n[4-1]", `range "4-1" runs backwards`},
		{"n[1-x]", `"x": not a number`},
		{"n[1,]", `not a number of 1 to 18 digits`},
		{"n[-3]", `not a number of 1 to 18 digits`},
		{"n[1-2-3]", `"2-3": not a number`},
		{"n[1 - 2]", `"1 ": not a number`},
		{"n[1-9999999999999999999]", `not a number of 1 to 18 digits`},
		{"n[1-999999999999999999]", `more than 1048576 names`},
		{"a[1-1000]b[1-1000]c[1-1000]", `more than 1048576 names`},
		{"a[1-600000],b[1-600000]", `more than 1048576 names`},
	}
	for _, tt := range tests {
		_, err := Expand(tt.expr)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Expand(%q): error %v, want %q", tt.expr, err, tt.want)
		}
		if err := Visit(tt.expr, func(name []byte) { t.Errorf("Visit(%q): name %q", tt.expr, name) }); err == nil {
			t.Errorf("Visit(%q): no error", tt.expr)
		}
	}
}

func TestExpandLimitIsReachable(t *testing.T) {
	names, err := Expand(fmt.Sprintf("n[1-%d]", MaxNames))
	if err != nil || len(names) != MaxNames {
		t.Fatalf("%d names, %v; want %d", len(names), err, MaxNames)
	}
}

func TestCompress(t *testing.T) {
	tests := []struct{ names, want string }{
		{"", ""},
		{"n1", "n1"},
		{"login", "login"},
		{"n1 n2 n3", "n[1-3]"},
		{"n1 n3", "n[1,3]"},
		{"n1 n2 n4 m1 m2", "n[1-2,4],m[1-2]"},
		{"n1 m1 n2", "n1,m1,n2"},
		{"n3 n2 n1", "n[3,2,1]"},
		{"n08 n09 n10 n11", "n[08-11]"},
		{"n8 n9 n10", "n[8-10]"},
		{"n09 n010", "n[09,010]"},
		{"n9 n010", "n[9,010]"},
		{"n1 n1", "n[1,1]"},
		{"rack0n1 rack0n2 rack1n1", "rack0n[1-2],rack1n1"},
		{"a1b a2b", "a1b,a2b"},
		{"x999999999999999999 x1000000000000000000", "x999999999999999999,x1000000000000000000"},
	}
	for _, tt := range tests {
		if got := Compress(strings.Fields(tt.names)); got != tt.want {
			t.Errorf("Compress(%s) = %q, want %q", tt.names, got, tt.want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "n[1-4,07-09],m1", "rack[0-1]n[1-3]", "n[1-4", "a]b", "n[0-18446744073709551616]", "x[1][2]", "n[00000000000000000009-10]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, err := Count(s)
		if n > 10000 {
			return
		}
		names, err2 := Expand(s)
		if (err == nil) != (err2 == nil) || len(names) != n {
			t.Fatalf("Count %d, %v; Expand %d names, %v", n, err, len(names), err2)
		}
		if err != nil {
			return
		}
		again, err := Expand(Compress(names))
		if err != nil {
			t.Fatalf("Compress gave %q: %v", Compress(names), err)
		}
		if diff := cmp.Diff(names, again); diff != "" && n > 0 {
			t.Fatalf("through %q: (-want +got)\n%s", Compress(names), diff)
		}
	})
}

func BenchmarkExpand100k(b *testing.B) {
	for b.Loop() {
		if _, err := Expand("nid[000001-100000]"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompress100k(b *testing.B) {
	names, err := Expand("nid[000001-100000]")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if got := Compress(names); got != "nid[000001-100000]" {
			b.Fatal(got)
		}
	}
}
