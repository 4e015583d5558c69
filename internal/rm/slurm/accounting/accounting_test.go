package accounting

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestSacctmgrScript(t *testing.T) {
	for commands, want := range map[string]string{
		"# x\n\nadd account a\n":        "add cluster tiny\nadd account a\n",
		"create clus name=tiny\nadd x":  "create clus name=tiny\nadd x\n",
		"  ADD Cluster tiny\n# nothing": "ADD Cluster tiny\n",
	} {
		if got := strings.Join(script(commands, "tiny"), "\n") + "\n"; got != want {
			t.Errorf("%q: got %q, want %q", commands, got, want)
		}
	}
}

// TestSessions: once a session has read the list of QOS, it ends before a command that names a QOS
// that was added later.
func TestSessions(t *testing.T) {
	for commands, want := range map[string]string{
		"add qos a\nadd qos b\nadd cluster c qos=a,b":                                                              "3",
		"add qos a preempt=normal\nadd cluster c qos=a":                                                            "1 1",
		"Add QOS name=a Preempt+=normal\nadd qos b\ncreate q c preempt=b\nadd account x\nadd account y qoslevel=c": "2 2 1",
		"add account x qos=normal\nadd account y qos=normal\nadd qos a\nadd account z\nadd user u defaultqos=a":    "4 1",
		"modify qos where name=normal set priority=1\nadd qos a\nmodify qos where name=a set preempt=normal":       "3",
	} {
		var lengths []string
		for _, session := range sessions(strings.Split(commands, "\n")) {
			lengths = append(lengths, fmt.Sprint(len(session)))
		}
		if got := strings.Join(lengths, " "); got != want {
			t.Errorf("%q: sessions of %s commands, want %s", commands, got, want)
		}
	}
}

// TestTogether checks which users one command adds.
func TestTogether(t *testing.T) {
	many := make([]string, 1000)
	for i := range many {
		many[i] = fmt.Sprintf("add user name=user%04d account=a", i)
	}
	long := together(many)
	var names []string
	for _, line := range long {
		if len(line) > longestCommand {
			t.Errorf("a command of %d characters", len(line))
		}
		names = append(names, strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "add user name="), " account=a"), ",")...)
	}
	if len(long) != 3 || len(names) != 1000 || !slices.IsSorted(names) {
		t.Errorf("%d commands with %d names, want 3 with 1000 in their order", len(long), len(names))
	}
	for commands, want := range map[string]string{
		"add user name=u account=a x=1\nadd user name=v account=a x=1\nadd user name=w account=a x=1": "add user name=u,v,w account=a x=1",
		"add user name=u account=a\nadd user name=v account=b":                                        "", // other options
		"add user name=u account=a\nadd qos x\nadd user name=v account=a":                             "", // not successive
		"add user name=u account=a\nadd user name=u account=a\nadd user name=v account=a":             "", // u exists
		"add user name=u account=a\nadd user name=U account=A":                                        "",
		"add user name=u account=a\ncreate user name=v account=a":                                     "",
		"add user name=u account=\"a\"\nadd user name=v account=\"a\"":                                "", // quotes
		"add user name=u[1-2] account=a\nadd user name=v account=a":                                   "",
		"add user u account=b\nadd user name=v account=a\nadd user name=u account=a":                  "", // u is known
		"add user u account=a,b\nadd user v account=a,b":                                              "add user u,v account=a,b",
	} {
		if want == "" {
			want = commands
		}
		if got := strings.Join(together(strings.Split(commands, "\n")), "\n"); got != want {
			t.Errorf("%q: got %q, want %q", commands, got, want)
		}
	}
}

// TestRegistration: each named resource is registered once and in order. Resources that slurmdbd
// registers itself, and texts that are not resources, become no SQL.
func TestRegistration(t *testing.T) {
	const into = "INSERT IGNORE INTO slurm_acct_db.tres_table (creation_time, type, name) VALUES "
	for list, want := range map[string]string{
		"":                              "",
		"cpu,mem,billing,fs/disk,gres/": "",
		"gres/gpu":                      "(0, 'gres', 'gpu')",
		"License/Big, gres/gpu,cpu,gres/gpu:a100": "(0, 'license', 'big'), (0, 'gres', 'gpu'), (0, 'gres', 'gpu:a100')",
		"gres/a'),('b,gres/c\\,gres/d;,gres/e\nf": "",
		"gres/" + strings.Repeat("x", 300):        "",
	} {
		got := registration(list)
		_, values, found := strings.Cut(got, into)
		if found != (want != "") || found && strings.TrimSuffix(values, ";\n") != want || !found && got != "" {
			t.Errorf("%q: got %q, want the values %q", list, got, want)
		}
		if strings.Count(got, "\n") != strings.Count(got, ";\n") {
			t.Errorf("%q: a statement has several lines: %q", list, got)
		}
	}
}
