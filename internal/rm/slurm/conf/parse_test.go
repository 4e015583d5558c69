package conf

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rmreplay/internal/rm/slurm/conf/syntax"
)

// parseText parses a file with the given name. files has the contents by name.
func parseText(name string, files map[string]string, g syntax.Grammar) ([]Statement, error) {
	return parse(name, g, reading(files))
}

// reading returns a reader of files in memory, given by path.
func reading(contents map[string]string) *files { return &files{open: memory(contents)} }

func memory(files map[string]string) reader {
	return func(path string) ([]byte, error) {
		text, ok := files[path]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return []byte(text), nil
	}
}

// written formats statements compactly: "line Key=Value|Attribute=Value".
func written(statements []Statement) []string {
	var list []string
	for _, s := range statements {
		var b strings.Builder
		b.WriteString(s.File[strings.LastIndexByte(s.File, '/')+1:])
		b.WriteString(":")
		b.WriteString(strings.Repeat("I", s.Line))
		b.WriteString(" " + s.Key + "=" + s.Value)
		for _, a := range s.Attributes {
			b.WriteString("|" + a.Key + "=" + a.Value)
		}
		list = append(list, b.String())
	}
	return list
}

func TestParse(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"any case", "CLUSTERname=a\n", []string{"s:I CLUSTERname=a"}},
		{"blanks around the sign", "ClusterName \t= a\n", []string{"s:I ClusterName=a"}},
		{"no newline at the end", "ClusterName=a", []string{"s:I ClusterName=a"}},
		{"carriage returns", "ClusterName=a\r\n\r\n# c\r\n", []string{"s:I ClusterName=a"}},
		{"comment", "ClusterName=a#b\n", []string{"s:I ClusterName=a"}},
		{"escaped comment sign", `ClusterName=a\#b` + "\n", []string{"s:I ClusterName=a#b"}},
		{"escaped backslash before a comment", `ClusterName=a\\#b` + "\n", []string{`s:I ClusterName=a\`}},
		{"comment sign in quotes is one too", `Licenses="a #b"` + "\nKillWait=3", []string{`s:I Licenses="a`, "s:II KillWait=3"}},
		{"quotes", `Licenses="a b"` + "\n", []string{"s:I Licenses=a b"}},
		{"empty quotes", `Licenses=""` + "\n", []string{"s:I Licenses="}},
		{"quotes within a value stay", `Licenses=a"b"` + "\n", []string{`s:I Licenses=a"b"`}},
		{"quotes with a tail stay", `Licenses="a"b` + "\n", []string{`s:I Licenses="a"b`}},
		{"the value may follow a blank", "Licenses= a\n", []string{"s:I Licenses=a"}},
		{"continued", "Licenses=a,\\\nb\nKillWait=1", []string{"s:I Licenses=a,b", "s:III KillWait=1"}},
		{"continued with blanks after the backslash", "NodeName=n \\  \n CPUs=2", []string{"s:I NodeName=n|CPUs=2"}},
		{"continued before a comment", "NodeName=n \\ # note\nCPUs=2", []string{"s:I NodeName=n|CPUs=2"}},
		{"a comment line ends a continuation", "NodeName=n \\\n# note\nKillWait=2", []string{"s:I NodeName=n", "s:III KillWait=2"}},
		{"two backslashes do not continue", "Licenses=a\\\\\nKillWait=2", []string{`s:I Licenses=a\`, "s:II KillWait=2"}},
		{"continued at the end of the file", "Licenses=a\\", []string{"s:I Licenses=a"}},
		{"attributes", `PartitionName=p  Nodes="a b"	default = yes`, []string{"s:I PartitionName=p|Nodes=a b|default=yes"}},
		{"operator", "SchedulerParameters+=a", []string{"s:I SchedulerParameters=a"}},
		{"numbers", "KillWait=0x10\nMessageTimeout=010\nFirstJobId=4k\nInactiveLimit=INFINITE",
			[]string{"s:I KillWait=0x10", "s:II MessageTimeout=010", "s:III FirstJobId=4k", "s:IIII InactiveLimit=INFINITE"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := parseText("s", map[string]string{"s": test.text}, slurmGrammar)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, written(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestInclude(t *testing.T) {
	files := map[string]string{
		"/etc/slurm.conf":        "ClusterName=Big\ninclude sub/%c.conf\nKillWait=3\n",
		"/etc/sub/big.conf":      "INCLUDE\tnodes.conf\nInactiveLimit=1\nInclude /opt/more.conf",
		"/etc/sub/nodes.conf":    "NodeName=n1\n",
		"/opt/more.conf":         "\n\nMinJobAge=2",
		"/etc/itself.conf":       "Include itself.conf\n",
		"/etc/a.conf":            "Include b.conf\n",
		"/etc/b.conf":            "Include a.conf\n",
		"/etc/nowhere.conf":      "KillWait=1\nInclude gone.conf\n",
		"/etc/indented.conf":     " Include slurm.conf\n",
		"/etc/two.conf":          "Include a b\n",
		"/etc/none.conf":         "Include \n",
		"/etc/unnamed.conf":      "Include %c.conf\n",
		"/etc/includeerror.conf": "\nInclude bad.conf",
		"/etc/bad.conf":          "\n\nKillWaitt=2",
	}
	got, err := parseText("/etc/slurm.conf", files, slurmGrammar)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"slurm.conf:I ClusterName=Big", "nodes.conf:I NodeName=n1", "big.conf:II InactiveLimit=1",
		"more.conf:III MinJobAge=2", "slurm.conf:III KillWait=3"}
	if diff := cmp.Diff(want, written(got)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for name, want := range map[string]string{
		"itself":       "/etc/itself.conf:1: Include itself.conf: the file includes itself",
		"a":            "/etc/b.conf:1: Include a.conf: the file includes itself",
		"nowhere":      "/etc/nowhere.conf:2: Include gone.conf: no such file (want a copy of the site's file as /etc/gone.conf)",
		"indented":     `/etc/indented.conf:1: "Include slurm.conf": not Key=Value`,
		"two":          `/etc/two.conf:1: unexpected "b" after Include a (want one file)`,
		"none":         "/etc/none.conf:1: Include names no file (want Include FILE)",
		"unnamed":      "/etc/unnamed.conf:1: Include %c.conf: %c is the cluster's name, but ClusterName is not set above this line",
		"includeerror": "/etc/bad.conf:3: KillWaitt: unrecognized key; did you mean KillWait?",
	} {
		_, err := parseText("/etc/"+name+".conf", files, slurmGrammar)
		if err == nil || err.Error() != want {
			t.Errorf("%s: error\n%v\nwant\n%s", name, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"KillWait", `s:1: "KillWait": not Key=Value`},
		{"\nKillWait=", `s:2: "KillWait=": not Key=Value`},
		{"KillWait=1 MinJobAge=2", `s:1: unexpected "MinJobAge=2" after KillWait=1 (one key on a line; quote a value that has blanks)`},
		{"SelecType=select/linear", "s:1: SelecType: unrecognized key; did you mean SelectType?"},
		{"Qwertyuiop=1", "s:1: Qwertyuiop: unrecognized key"},
		{"KillWait=-1", "s:1: KillWait=-1: below 0 (want 0 to 65535, or INFINITE)"},
		{"KillWait=65536", "s:1: KillWait=65536: larger than 65535"},
		{"KillWait=1k", "s:1: KillWait=1k: not a number (want 0 or more, or INFINITE)"},
		{"FirstJobId=99999999999999999999", "s:1: FirstJobId=99999999999999999999: larger than 4294967295"},
		{"DisableRootJobs=maybe", "s:1: DisableRootJobs=maybe: not a flag (want YES or NO)"},
		{"NodeName=n1 CPU=4", "s:1: CPU: unrecognized key in the line of NodeName=n1; did you mean CPUs?"},
		{"NodeName=n1 CPUs=four", "s:1: CPUs=four: not a number (want 0 or more, or INFINITE)"},
		{"PartitionName=p Nodes=a b", `s:1: "b" in the line of PartitionName=p: not Key=Value`},
		{"A\x00=1", "s:1: NUL byte: not a text file"},
		{"Foo=1\nKillWait=x\n", "s:1: Foo: unrecognized key\ns:2: KillWait=x: not a number (want 0 or more, or INFINITE)"},
	} {
		_, err := parseText("s", map[string]string{"s": test.text}, slurmGrammar)
		if err == nil || err.Error() != test.want {
			t.Errorf("%q: error\n%v\nwant\n%s", test.text, err, test.want)
		}
	}
	if _, err := parseText("s", nil, slurmGrammar); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v for a file that does not exist", err)
	}
}

func TestParseCount(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "2k": 2048, "2K": 2048, "2kib": 2048, "2kb": 2000, "3M": 3 << 20, "1G": 1 << 30, "1gb": 1e9, "1T": 1 << 40, "1p": 1 << 50,
	} {
		if got, err := syntax.ParseCount(text); err != nil || got != want {
			t.Errorf("%q: %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "k", "-1", "1x", "1kk", "1mkib", "1ib", "99999999999999999999", "9000000P"} {
		if got, err := syntax.ParseCount(text); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

// FuzzParse: no input makes the parser panic or loop. The parser reads the statements back from
// their text.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"ClusterName=a\nInclude other\nNodeName=n[1-3] CPUs=2 \\\n Feature=\"a b\" # c\n",
		`Licenses=a\#b\\` + "\n", "A= B=\"", "include\t", "KillWait+=3", "Licenses=\"\\\\\"", "PartitionName=p Nodes=\"x\"y",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		files := map[string]string{"/s": text, "/other": "KillWait=2\n"}
		statements, err := parseText("/s", files, slurmGrammar)
		if err != nil {
			return
		}
		var b strings.Builder
		for _, s := range statements {
			b.WriteString(s.String() + "\n")
		}
		again, err := parseText("/s", map[string]string{"/s": b.String()}, slurmGrammar)
		if err != nil {
			t.Fatalf("written as %q: %v", b.String(), err)
		}
		for i := range statements {
			statements[i].File, statements[i].Line = "/s", i+1
		}
		if diff := cmp.Diff(statements, again); diff != "" {
			t.Errorf("written as %q (-first +again):\n%s", b.String(), diff)
		}
	})
}

// TestIncludeBeside checks that Open reads a file beside slurm.conf in place of an included file
// with an absolute path and the same name, and reports this. The absolute path may belong to
// another cluster.
func TestIncludeBeside(t *testing.T) {
	const site = smallest + "Include /site/slurm/nodes.conf\n"
	for _, tt := range []struct {
		files map[string]string
		node  string
		notes string
		fails string
	}{
		{map[string]string{"/copy/slurm.conf": site, "/copy/nodes.conf": "NodeName=m1\n", "/site/slurm/nodes.conf": "NodeName=x1\n"}, "m1",
			"/copy/slurm.conf:4: Include /site/slurm/nodes.conf: /copy/nodes.conf beside slurm.conf is read in its place", ""},
		{map[string]string{"/copy/slurm.conf": site, "/site/slurm/nodes.conf": "NodeName=x1\n"}, "x1", "", ""},
		{map[string]string{"/copy/slurm.conf": site}, "", "", "Include /site/slurm/nodes.conf: no such file (want a copy of the site's file as /copy/nodes.conf)"},
		{map[string]string{"/site/slurm/slurm.conf": site, "/site/slurm/nodes.conf": "NodeName=x1\n"}, "x1", "", ""},
		{map[string]string{"/copy/slurm.conf": site, "/copy/nodes.conf": "?\n"}, "", "", "/copy/nodes.conf:1: "},
	} {
		path := "/copy/slurm.conf"
		if tt.files[path] == "" {
			path = "/site/slurm/slurm.conf"
		}
		c, err := load(path, memory(tt.files))
		if tt.fails != "" {
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%v, want %s", err, tt.fails)
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if _, ok := c.Node(tt.node); !ok || tt.notes != "" != slices.Contains(c.Warnings, tt.notes) {
			t.Errorf("nodes %v, warnings %q", c.Nodes, c.Warnings)
		}
	}
}
