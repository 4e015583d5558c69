package admission

import (
	"fmt"
	"slices"
	"strings"

	"rmreplay/internal/slurmspec"
)

// UndeclaredQOS finds the QOS that a partition names and no command for sacctmgr adds. UndeclaredQOS returns a text for
// each QOS, because slurmctld exits at its start for such a QOS. slurmctld checks the partition's own QOS if QOS are
// enforced, and since 25.11 every QOS that the partition names (src/slurmctld/read_config.c). UndeclaredQOS returns nil
// without accounting. It also returns nil if the commands have mistakes, because these mistakes are reported as errors.
func (s *Site) UndeclaredQOS() (list []string) {
	if s.accounts == nil || len(s.accounts.Mistakes) > 0 {
		return nil
	}
	all := s.release.Since(slurmspec.R2511)
	for _, p := range s.cluster.Partitions {
		var names []string
		if p.QOS != "" && (s.qos || all) {
			names = append(names, strings.ToLower(p.QOS))
		}
		if all {
			names = slices.Concat(names, p.AllowQOS, p.DenyQOS)
		}
		for _, name := range names {
			if !s.accounts.QOS[name] {
				list = append(list, fmt.Sprintf(
					"%s:%d: partition %s: QOS %s is not in %s, and slurmctld does not start without it (want %s)",
					p.File, p.Line, p.Name, name, s.accountsFile(), s.wantQOS(name)))
			}
		}
	}
	return list
}

// wantQOS is the remedy for a QOS that is not declared. A new accounts.sacctmgr must list the
// site's accounts too: with the file, a replay no longer makes up accounts.
func (s *Site) wantQOS(name string) string {
	if s.cluster.Accounts == nil {
		return "that file, with add qos " + name + " and the site's accounts, or --no-accounting"
	}
	return "add qos " + name + " there"
}
