package associations

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"rmreplay/internal/realdata"
)

// site has commands like those of real sites.
const site = `# The site's accounts.
modify QOS set normal Priority=0
add qos high Priority=100 GrpTRES=cpu=10,gres/gpu=2 MaxTRESPU=cpu=4 Flags=DenyOnLimit,NoDecay MaxWall=1-0 Preempt=normal MaxJobsPU=2
add QOS Name=low,idle MaxSubmitJobsPerUser=20
add cluster Name=Vale Fairshare=1 QOS=normal,high
add account physics,chemistry parent=root Description="physics and 'chemistry'" Organization=uni fairshare=50
add account name=optics parent=physics cluster=vale GrpJobs=-1
create user ada account=physics fairshare=10 maxjobs=1 qos=normal,high DefaultQOS=high
add user name=ada account=optics partition=long MaxWall=2-00:00:00 grpsub=4
add user ada account=optics fairshare=parent
add user name=Boris DefaultAccount=chemistry MaxSubmitJobs=1000 AdminLevel=Administrator
add coordinator account=physics names=ada
modify user where name=ada set qoslevel+=low MaxTRES=cpu=4
modify account physics set fairshare=3
delete user name=boris account=chemistry
remove qos where name=idle
list associations format=Account,User tree withd
`

func TestSite(t *testing.T) {
	s := Read([]byte(site), "a", "vale", "gres/gpu")
	if len(s.Mistakes) > 0 {
		t.Errorf("mistakes in commands that sacctmgr takes:\n%s", strings.Join(s.Mistakes, "\n"))
	}
	if !s.Accounts["optics"] || !s.Users["ada"]["optics"] || !s.QOS["high"] || s.QOS["idle"] {
		t.Errorf("%+v", s)
	}
}

// TestSamples: the commands of the sites in the shared data have no mistakes.
func TestSamples(t *testing.T) {
	for dir, cluster := range map[string]string{"micro": "micro", "medium": "ubhpc"} {
		path := realdata.Path(t, "slurm", dir, "sacctmgr.script")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if s := Read(data, path, cluster, "gres/gpu"); len(s.Mistakes) > 0 {
			t.Errorf("%s", strings.Join(s.Mistakes, "\n"))
		}
	}
}

func TestMistakes(t *testing.T) {
	const head = "add account physics\nadd user ada account=physics\n" // the third line is wrong
	for text, want := range map[string]string{
		"\x01\x02garbage":                           "a:3: \"\\x01\\x02garbage\" is not a command of sacctmgr",
		"creat user x":                              "a:3: user x: no account (want account=NAME)", // an abbreviation
		"ad user x":                                 `a:3: "ad" is not a command of sacctmgr; did you mean add?`,
		"Cluster - 'vale'":                          "a:3: cluster: a line of sacctmgr dump among commands (want a file of commands, or the whole dump)",
		"add":                                       "a:3: add: the entity is missing (want account, cluster, coordinator, qos or user)",
		"add usr x account=physics":                 `a:3: "usr": sacctmgr has no such entity (want account, cluster, coordinator, qos or user); did you mean user?`,
		"add account":                               "a:3: add account: no name (want add account NAME)",
		"add account b fairshar=3":                  "",
		"add account b fiarshare=3":                 "a:3: fiarshare: not an option of add account; did you mean fairshare?",
		"add account b GrpJobs=many":                "a:3: grpjobs=many: not a whole number (want, for example, 10, or -1 for none)",
		"add account b GrpTRES=cpu=4,gres/gpu=1":    "",
		"add account b GrpTRES=cpus=4":              "a:3: grptres=cpus=4: the cluster does not track \"cpus\" (want cpu, mem, energy, node, billing, vmem, pages, fs/disk, gres/gpu); did you mean cpu?",
		"add account b GrpTRES=cpu":                 "a:3: grptres=cpu: \"cpu\" has no amount (want cpu=10)",
		"add account b GrpJobs=":                    "a:3: grpjobs=: no value",
		"add account b parent=physcis":              "a:3: account physcis: no command above declares it; did you mean physics?",
		"add qos q Priority=high":                   "a:3: priority=high: not a whole number (want, for example, 10, or -1 for none)",
		"add qos q Priority=1.5":                    "a:3: priority=1.5: not a whole number (want, for example, 10, or -1 for none)",
		"add qos q Priority=5000000000":             "a:3: priority=5000000000: too large (want at most 4294967293)",
		"add qos q Priority=-5 GrpCPUs=5000000000":  "", // no priority
		"add qos q UsageFactor=abc":                 "a:3: usagefactor=abc: not a number (want, for example, 0.5)",
		"add qos q UsageThreshold=x":                "a:3: usagethreshold=x: not a number (want, for example, 0.5)",
		"add qos q LimitFactor=z":                   "a:3: limitfactor=z: not a number (want, for example, 0.5)",
		"add qos q LimitFactor=1.5 UsageFactor=-1":  "",
		"add qos q GraceTime=soon":                  "a:3: gracetime=soon: not a whole number (want, for example, 10, or -1 for none)",
		"add qos q MaxWall=long":                    "a:3: maxwall=long: not a time limit (want minutes, HH:MM:SS or D-HH:MM:SS)",
		"add qos q MaxWall=1-12 GrpWall=unlimited":  "",
		"add qos q PreemptExemptTime=x":             "a:3: preemptexempttime=x: not a time limit (want minutes, HH:MM:SS or D-HH:MM:SS)",
		"add qos q Flags=NoDecay,NoReserv,OverPart": "", // abbreviations
		"add qos q Flags=Foo":                       `a:3: flags=Foo: "foo" is not a flag of a QOS (want denyonlimit, enforceusagethreshold, nodecay, noreserve, overpartqos, partitionmaxnodes, partitionminnodes, partitiontimelimit, relative, requiresreservation, usagefactorsafe)`,
		"modify qos normal set Flags=-1":            "",
		"add qos q PreemptMode=maybe":               `a:3: preemptmode=maybe: "maybe" is not a mode of preemption (want cluster, off, cancel, requeue or suspend)`,
		"add qos q PreemptMode=Cancel,Requeue":      "a:3: preemptmode=Cancel,Requeue: more than one mode (want one of OFF, CANCEL, REQUEUE and SUSPEND, with or without GANG)",
		"modify user ada set Priority=top":          "a:3: priority=top: not a whole number (want, for example, 10, or -1 for none)",
		"modify account physics set fairshare=x":    "a:3: fairshare=x: not a whole number (want a number of shares, or parent)",
		"modify account physics set fairshare=-3":   "", // one share
		"add account b GrpMemory=4G":                "a:3: grpmemory=4G: not a whole number (want, for example, 10, or -1 for none)",
		"add account b GrpTRES=cpu=many":            `a:3: grptres=cpu=many: "cpu=many": the amount is not a whole number (want cpu=10, or -1 for no limit)`,
		"add account b GrpTRES=cpu=-1,mem=4G":       "",
		"add account physics":                       "a:3: account physics is declared twice (first in line 1)",
		"add user bob":                              "a:3: user bob: no account (want account=NAME)",
		"add user bob account=chem":                 "a:3: account chem: no command above declares it",
		"add user ada account=physics fairshare=2":  "a:3: user ada is declared twice in account physics (first in line 2)",
		"add user ada account=physics qos=hihg":     "a:3: QOS hihg: no command above declares it",
		"modify user name=bob set fairshare=2":      "a:3: user bob: no command above declares it",
		"modify account where name=x set GrpJobs=1": "a:3: account x: no command above declares it",
		"delete qos high":                           "a:3: QOS high: no command above declares it",
		"add qos normal":                            "a:3: QOS normal exists already",
		"add user x account=physics cluster=other":  "a:3: cluster other: no command above declares it",
		`add account b description="b`:              `a:3: "description=\"b": a quote without its end`,
		"add account b # a note":                    `a:3: "#": sacctmgr accepts no comment after a command (want it on a separate line)`,
		"add account" + strings.Repeat(" x", 127):   "a:3: more than 128 words",
	} {
		s := Read([]byte(head+text+"\n"), "a", "vale", "gres/gpu")
		var wanted []string
		if want != "" {
			wanted = []string{want}
		}
		if !slices.Equal(s.Mistakes, wanted) {
			t.Errorf("%s:\ngot  %q\nwant %q", text, s.Mistakes, wanted)
		}
	}
}

// sacctmgr adds accounts and users only once the cluster exists. In these files the command that
// adds the cluster comes later, or sacctmgr refuses it.
func TestClusterFirst(t *testing.T) {
	const none = "no cluster has been added (want a correct command add cluster vale above)"
	for text, want := range map[string][]string{
		"add account a\nadd user u account=a": nil, // rmreplay adds the cluster
		"add cluster other\nadd account a": {
			"a: no command adds the cluster vale of slurm.conf (want add cluster vale)"},
		"add account a\nadd cluster vale\nadd user u account=a": {
			"a:1: add account: " + none, "a:3: account a: no command above declares it"},
		"add qos high preempt=long\nadd qos long\nadd cluster vale qos=normal,high,long\nadd account a\nadd user u account=root": {
			"a:1: QOS long: no command above declares it", "a:3: QOS high: no command above declares it", "a:4: add account: " + none,
			"a:5: add user: " + none},
	} {
		s := Read([]byte(text), "a", "vale", "gres/gpu")
		if !slices.Equal(s.Mistakes, want) {
			t.Errorf("%s:\ngot  %q\nwant %q", text, s.Mistakes, want)
		}
		if has := s.Users["u"] != nil; has != (want == nil) {
			t.Errorf("%s: user u exists: %t", text, has)
		}
	}
}

// FuzzRead: no file makes Read panic, and the number of mistakes is bounded.
func FuzzRead(f *testing.F) {
	f.Add(site)
	f.Add("add user ' \"\nremove x =\nmodify cluster where=set set where")
	f.Fuzz(func(t *testing.T, text string) {
		s := Read([]byte(text), "a", "vale", "gres/gpu")
		if len(s.Mistakes) > maxMistakes+1 {
			t.Errorf("%d mistakes", len(s.Mistakes))
		}
		for _, m := range s.Mistakes {
			if len(m) > 600 || strings.ContainsAny(m, "\n") {
				t.Errorf("mistake %q", m)
			}
		}
	})
}

// TestOptions checks the file that TestAccountOptions of package slurm gives to sacctmgr: it
// contains every option of accounts, users and QOS, and no mistake.
func TestOptions(t *testing.T) {
	commands, err := os.ReadFile("testdata/options.sacctmgr")
	if err != nil {
		t.Fatal(err)
	}
	if s := Read(commands, "a", "tiny", "gres/gpu"); len(s.Mistakes) > 0 {
		t.Error(strings.Join(s.Mistakes, "\n"))
	}
	for _, e := range []string{"account", "user", "qos"} {
		for option := range entities[e].options {
			_, condition := conditionOptions[option]
			if condition || strings.HasPrefix(aliasOf(option), "names") || option == "newname" || e == "account" && aliasOf(option) == "accounts" {
				continue // of other commands, or the name that is added
			}
			if !regexp.MustCompile(`(?m)^add ` + e + ` .*\b` + option + `=`).Match(commands) {
				t.Errorf("no command adds a %s with %s", e, option)
			}
		}
	}
}

// TestReadersAtOnce checks that several goroutines may read one set at once, even as its first
// readers.
func TestReadersAtOnce(t *testing.T) {
	var accounts strings.Builder
	accounts.WriteString("add cluster c\nadd account a\n")
	for i := range 200 {
		fmt.Fprintf(&accounts, "add user u%d account=a\n", i)
	}
	for range 100 {
		s := Read([]byte(accounts.String()), "accounts", "c", "")
		begin := make(chan struct{})
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() {
				<-begin
				if line := s.Line(s.Associations[len(s.Associations)-1]); len(line) != 3 {
					t.Errorf("the line of a user: %v", line)
				}
			})
		}
		close(begin)
		readers.Wait()
	}
}
