package slurm

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"rmreplay/internal/rm/slurm/rpc"
)

// association is an account, or a user in one, as slurmdbd numbers them.
type association struct {
	id            uint32
	account, user string
	parent        string // account above this account
}

// giveUsage puts the fair-share usage into the file in which slurmctld keeps it between
// two runs (load_assoc_usage in assoc_mgr.c), before slurmctld starts.
func (e *Engine) giveUsage(ctx context.Context) error {
	if len(e.cfg.Usage) == 0 {
		return nil
	}
	if !e.adapted.Accounting {
		e.warn("usage-ignored", "the workload gives fair-share usage, and the cluster keeps no accounts", true)
		return nil
	}
	out, _, err := e.run(ctx, "", e.cfg.Install.Sacctmgr, "-nP", "list", "assoc",
		"cluster="+e.cfg.Cluster.Name, "format=ID,Account,User,ParentName")
	if err != nil {
		return fmt.Errorf("giving fair-share usage: %w", err)
	}
	list, err := parseAssociations(out)
	if err != nil {
		return fmt.Errorf("giving fair-share usage: %w", err)
	}
	own, unknown := e.ownUsage(list)
	if len(unknown) > 0 {
		e.warn("usage-unknown", fmt.Sprintf("fair-share usage of %d accounts or users that the cluster does not have: %s", len(unknown), strings.Join(unknown, ", ")), true)
	}
	file := rpc.AppendUsageHeader(nil, e.Now().UnixSeconds())
	for i, a := range list {
		if own[i] > 0 {
			file = rpc.AppendUsage(file, a.id, own[i])
		}
	}
	if err := os.WriteFile(e.place.file("state", "assoc_usage"), file, 0o600); err != nil {
		return fmt.Errorf("giving fair-share usage: %w", err)
	}
	return nil
}

// ownUsage is the usage of each association without what is below it. slurmctld adds
// it up to the root itself; what an account has beyond its users' and its
// subaccounts' usage (users who have left, say) is its own.
func (e *Engine) ownUsage(list []association) (own []float64, unknown []string) {
	given := map[[2]string]float64{}
	for _, u := range e.cfg.Usage {
		given[[2]string{strings.ToLower(u.Account), strings.ToLower(u.User)}] += u.Raw
	}
	total := map[string]float64{} // of accounts
	own = make([]float64, len(list))
	below := map[string]float64{}
	known := map[[2]string]bool{}
	for i, a := range list {
		key := [2]string{a.account, a.user}
		raw, ok := given[key]
		if known[key] || !ok {
			continue // a user's second association, for a partition, or nothing given
		}
		known[key] = true
		if a.user == "" {
			total[a.account] = raw
			continue
		}
		own[i] = raw
		below[a.account] += raw
	}
	for key := range given {
		if !known[key] {
			unknown = append(unknown, strings.Trim(key[0]+"/"+key[1], "/"))
		}
	}
	e.takeAccrued(list, own)
	// sacctmgr lists an account before those below it, so the way up is backwards.
	for i := len(list) - 1; i >= 0; i-- {
		a := list[i]
		if a.user != "" {
			continue
		}
		own[i] = max(0, total[a.account]-below[a.account])
		if a.parent != "" {
			below[a.parent] += max(total[a.account], below[a.account])
		}
	}
	slices.Sort(unknown)
	return own, unknown
}

// takeAccrued takes off what preset jobs will add.
func (e *Engine) takeAccrued(list []association, own []float64) {
	for _, u := range e.cfg.Accrued {
		for i, a := range list {
			if a.user != "" && a.user == strings.ToLower(u.User) && (u.Account == "" || a.account == strings.ToLower(u.Account)) {
				own[i] = max(0, own[i]-u.Raw)
				break
			}
		}
	}
}

// parseAssociations reads what `sacctmgr -nP list assoc` printed.
func parseAssociations(out string) ([]association, error) {
	var list []association
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(f) < 4 {
			return nil, fmt.Errorf("sacctmgr said %q (want ID|Account|User|ParentName)", line)
		}
		id, err := strconv.ParseUint(f[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("sacctmgr said %q: the ID is not a number", line)
		}
		list = append(list, association{id: uint32(id), account: strings.ToLower(f[1]), user: strings.ToLower(f[2]), parent: strings.ToLower(f[3])})
	}
	return list, nil
}
