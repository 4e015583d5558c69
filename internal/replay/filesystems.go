package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"rmreplay/internal/hpc"
	"rmreplay/internal/ioaware"
	"rmreplay/internal/workload"
)

// FileSystems returns the given file systems, and those file systems of the workload that have other names. Every file
// system that a job uses must have a bandwidth, and jobs must use every given file system, unless they use none.
func FileSystems(w *workload.Workload, given []hpc.FileSystem) ([]hpc.FileSystem, error) {
	list := slices.Clone(given)
	known := map[string]bool{}
	for _, f := range list {
		known[f.Name] = true
	}
	for _, f := range w.FileSystems {
		if !known[f.Name] {
			known[f.Name] = true
			list = append(list, f)
		}
	}
	users := FileSystemUsers(w, list)
	for _, f := range given {
		if users[f.Name] == "" && len(users) > 0 {
			return nil, fmt.Errorf("%s: no job of the workload uses this file system (want one that its jobs use: %s)",
				f.Name, strings.Join(slices.Sorted(maps.Keys(users)), ", "))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		if !known[name] {
			return nil, fmt.Errorf("is missing: job %s uses %q, whose bandwidth is not known (want, for example, "+
				"%s=200MiB/s)", users[name], name, name)
		}
	}
	return list, nil
}

// FileSystemUsers returns a job of each file system that jobs use, by name. A job uses a file system if it does I/O
// there, or if it requests licenses with the name of one of the given file systems.
func FileSystemUsers(w *workload.Workload, given []hpc.FileSystem) map[string]string {
	users := map[string]string{}
	for _, job := range w.Jobs.All() {
		for _, p := range job.IO {
			if p.FileSystem != "" && users[p.FileSystem] == "" {
				users[p.FileSystem] = job.ID
			}
		}
		if job.Licenses == "" {
			continue
		}
		licenses := ioaware.ParseLicenses(job.Licenses)
		for _, f := range given {
			if _, requested := licenses[f.Name]; requested && users[f.Name] == "" {
				users[f.Name] = job.ID
			}
		}
	}
	return users
}
