package slurm

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/rm/slurm/sandbox"
	"rmreplay/internal/supervise"
)

// users are the users that exist in a run: the cluster's users, and the users of the workload that
// the cluster does not list.
type users struct {
	daemons supervise.User
	byName  map[string]hpc.User
	groups  map[string]uint32 // numbers of groups by name
}

// newUsers decides which users exist. The cluster's users keep their numbers. The workload's users
// must exist too: Slurm cannot start a job of a user without a name (slurm_cred_create in
// slurm_cred.c), and would try for ever. The associations decide whether a user may submit jobs.
//
// A user whose number is 0, or is the number of the daemons' user, gets another number. Slurm
// would treat such a user as its administrator.
func newUsers(daemons supervise.User, listed, more []hpc.User) *users {
	out := &users{daemons: daemons, byName: map[string]hpc.User{}, groups: map[string]uint32{}}
	list := slices.Clip(listed)
	known := map[string]bool{}
	for _, u := range list {
		known[u.Name] = true
	}
	for _, u := range more {
		if !known[u.Name] {
			known[u.Name] = true
			list = append(list, u)
		}
	}
	taken := map[uint32]bool{uint32(daemons.UID): true, 0: true}
	for _, u := range list {
		taken[u.UID] = true
	}
	next := uint32(20000)
	for _, u := range list {
		if u.UID == uint32(daemons.UID) || u.UID == 0 {
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
		out.byName[u.Name] = u
		if _, ok := out.groups[u.Group]; !ok {
			out.groups[u.Group] = u.GID
		}
	}
	out.numberGroups(list)
	return out
}

// numberGroups gives a number to each group that occurs only as a supplementary group.
func (u *users) numberGroups(list []hpc.User) {
	taken := map[uint32]bool{uint32(u.daemons.GID): true, 0: true}
	for _, gid := range u.groups {
		taken[gid] = true
	}
	next := uint32(20000)
	for _, user := range list {
		for _, name := range user.Groups {
			if _, known := u.groups[name]; known {
				continue
			}
			for taken[next] {
				next++
			}
			taken[next] = true
			u.groups[name] = next
		}
	}
}

// write writes the passwd and group files that the daemons read through libnss-wrapper.
func (u *users) write(in *sandbox.Sandbox) error {
	var passwd, group strings.Builder
	fmt.Fprintf(&passwd, "%s:x:%d:%d:%s:/:/bin/sh\n", daemonUser, u.daemons.UID, u.daemons.GID, daemonUser)
	fmt.Fprintf(&group, "%s:x:%d:\n", daemonUser, u.daemons.GID)
	if _, known := u.byName["root"]; !known {
		passwd.WriteString("root:x:0:0:root:/:/bin/sh\n") // the owner of reservations
	}
	if _, known := u.groups["root"]; !known {
		group.WriteString("root:x:0:\n")
	}
	members := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(u.byName)) {
		one := u.byName[name]
		fmt.Fprintf(&passwd, "%s:x:%d:%d:%s:/:/bin/sh\n", one.Name, one.UID, one.GID, one.Name)
		for _, name := range append([]string{one.Group}, one.Groups...) {
			if !slices.Contains(members[name], one.Name) {
				members[name] = append(members[name], one.Name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(u.groups)) {
		fmt.Fprintf(&group, "%s:x:%d:%s\n", name, u.groups[name], strings.Join(members[name], ","))
	}
	if err := in.WriteFile([]byte(passwd.String()), "passwd"); err != nil {
		return fmt.Errorf("writing the users: %w", err)
	}
	if err := in.WriteFile([]byte(group.String()), "group"); err != nil {
		return fmt.Errorf("writing the groups: %w", err)
	}
	return nil
}
