package slurm

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
)

// nameUsers decides who exists: the cluster's users, with the numbers that they have there, and those
// of the workload's whom it does not list. They existed when they submitted their jobs, and Slurm cannot start one of
// a user without a name (slurm_cred_create in slurm_cred.c): it would try for ever. Who may submit is
// for the associations to say. Whoever has no number, or that of the user who runs the
// daemons, gets another one, for Slurm would take him for its administrator.
func (e *Engine) nameUsers() {
	e.users, e.groups = map[string]hpc.User{}, map[string]uint32{}
	list := slices.Clip(e.cfg.Cluster.Users)
	listed := map[string]bool{}
	for _, u := range list {
		listed[u.Name] = true
	}
	for _, u := range e.cfg.Users {
		if !listed[u.Name] {
			listed[u.Name] = true
			list = append(list, u)
		}
	}
	taken := map[uint32]bool{uint32(os.Geteuid()): true, 0: true}
	for _, u := range list {
		if !taken[u.UID] {
			taken[u.UID] = true
		}
	}
	next := uint32(20000)
	for _, u := range list {
		if u.UID == uint32(os.Geteuid()) || u.UID == 0 {
			for taken[next] {
				next++
			}
			u.UID = next
			taken[next] = true
			u.GID = cmp.Or(u.GID, u.UID)
		}
		if u.Group == "" {
			u.Group = u.Name
		}
		e.users[u.Name] = u
		if _, ok := e.groups[u.Group]; !ok {
			e.groups[u.Group] = u.GID
		}
	}
}

// writeUsers writes the passwd and group files that the daemons see through
// libnss-wrapper.
func (e *Engine) writeUsers() error {
	var passwd, group strings.Builder
	fmt.Fprintf(&passwd, "%s:x:%d:%d:%s:/:/bin/sh\n", daemonUser, os.Geteuid(), os.Getegid(), daemonUser)
	fmt.Fprintf(&group, "%s:x:%d:\n", daemonUser, os.Getegid())
	if _, known := e.users["root"]; !known {
		passwd.WriteString("root:x:0:0:root:/:/bin/sh\n") // who owns reservations
	}
	if _, known := e.groups["root"]; !known {
		group.WriteString("root:x:0:\n")
	}
	members := map[string][]string{}
	for _, name := range sortedKeys(e.users) {
		u := e.users[name]
		fmt.Fprintf(&passwd, "%s:x:%d:%d:%s:/:/bin/sh\n", u.Name, u.UID, u.GID, u.Name)
		members[u.Group] = append(members[u.Group], u.Name)
	}
	for _, name := range sortedKeys(e.groups) {
		fmt.Fprintf(&group, "%s:x:%d:%s\n", name, e.groups[name], strings.Join(members[name], ","))
	}
	if err := os.WriteFile(e.place.file("passwd"), []byte(passwd.String()), 0o600); err != nil {
		return fmt.Errorf("writing the users: %w", err)
	}
	if err := os.WriteFile(e.place.file("group"), []byte(group.String()), 0o600); err != nil {
		return fmt.Errorf("writing the groups: %w", err)
	}
	return nil
}
