package slurm

import (
	"strings"
	"testing"
	"time"

	"rmreplay/internal/hpc"
)

func TestCheckPermitted(t *testing.T) {
	for line, want := range map[string]string{
		"scontrol update NodeName=n1 State=DRAIN":   "",
		"scontrol -o show job":                      "",
		"scontrol -aQ --oneliner show node":         "",
		"scontrol UPD PartitionName=p State=DOWN":   "",
		"scontrol reconfigure":                      "",
		"sacctmgr -i add user ada account=a":        "",
		"sacctmgr modify qos normal set Priority=5": "",
		"squeue -i 60":                              "",
		"scancel --name=a":                          "",
		"sshare -anP -o Users":                      "",

		"scontrol write config /etc/x":                      "write may write files",
		"scontrol wri config /etc/x":                        "wri may write files",
		"scontrol write batch_script 1 /x":                  "write may write files",
		"scontrol shutdown":                                 "shutdown may",
		"scontrol":                                          "no subcommand may",
		"scontrol -u show write config /x":                  "the option -u may",
		"scontrol -M show write config /x":                  "the option -M may",
		"scontrol -ou show write config /x":                 "the option -ou may",
		"scontrol --uid show write config /x":               "the option --uid may",
		"scontrol --uid=0 show":                             "the option --uid=0 may",
		"scontrol -- write config /x":                       "the option -- may",
		"scontrol - write":                                  "the option - may",
		"scontrol u NodeName=n1":                            "u may",
		"sacctmgr archive dump Directory=/ Script=/x.sh":    "archive may",
		"sacctmgr -i archive dump Script=/x.sh":             "archive may",
		"sacctmgr dump mycluster file=/etc/x":               "dump may",
		"sacctmgr du mycluster file=/etc/x":                 "du may",
		"sacctmgr load file=/etc/shadow":                    "load may",
		"sacctmgr shutdown":                                 "shutdown may",
		"sacctmgr -d show archive dump Script=/x.sh":        "the option -d may",
		"sacctmgr --autocomplete=x show archive dump A=/x":  "the option --autocomplete=x may",
		"sacctmgr ARCHIVE dump Directory=/tmp Script=/x.sh": "ARCHIVE may",
	} {
		err := CheckPermitted(hpc.Action{Run: strings.Fields(line)}, time.UTC)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", line, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
	if err := CheckPermitted(hpc.Action{Shell: "date"}, time.UTC); err == nil || !strings.Contains(err.Error(), "--allow-shell") {
		t.Errorf("a shell line: %v", err)
	}
	if err := CheckPermitted(hpc.Action{SlurmConf: "slurm.conf"}, time.UTC); err != nil {
		t.Errorf("a slurm.conf: %v", err)
	}
}

// A subcommand that can write a file or run a program is not permitted. Neither is an abbreviation
// that the program would accept for it.
func TestForbiddenAreNotPermitted(t *testing.T) {
	for program, forbidden := range map[string][]string{
		"scontrol": {"abort", "bbstat", "notify", "reboot", "shutdown", "takeover", "token", "write", "!!", "quit", "listpids", "power"},
		"sacctmgr": {"archive", "clear", "dump", "load", "reconfigure", "shutdown", "quit", "!!"},
	} {
		p := permissions[program]
		for _, name := range forbidden {
			for n := 1; n <= len(name); n++ {
				if p.permitsSubcommand(name[:n]) {
					t.Errorf("%s %s is permitted", program, name[:n])
				}
			}
		}
	}
}
