package associations

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// resources are the trackable resources of a cluster, in the order of their numbers in slurmdbd.
type resources []string

// builtinResources are the resources that slurmdbd registers for every cluster.
var builtinResources = resources{"cpu", "mem", "energy", "node", "billing", "vmem", "pages", "fs/disk"}

// resourcesOf returns the resources of a cluster with the given value of AccountingStorageTRES.
func resourcesOf(tracked string) resources {
	all := slices.Clone(builtinResources)
	for item := range strings.SplitSeq(strings.ToLower(tracked), ",") {
		if item = strings.TrimSpace(item); strings.Contains(item, "/") && !slices.Contains(all, item) {
			all = append(all, item)
		}
	}
	return all
}

// named returns the resource for a word, as sacctmgr finds it (slurmdb_find_tres_in_list_by_type
// in slurmdb_defs.c). It is the first resource that matches: the resource's type must begin with
// the text before the word's slash, and its name must equal the text after the slash. So "c" is
// cpu, and "g/gpu" is gres/gpu.
func (r resources) named(word string) (name string, ok bool) {
	kind, of, slash := strings.Cut(strings.ToLower(word), "/")
	for _, known := range r {
		knownKind, knownOf, named := strings.Cut(known, "/")
		if kind != "" && slash == named && of == knownOf && strings.HasPrefix(knownKind, kind) {
			return known, true
		}
	}
	return "", false
}

// list reads a list such as "cpu=10,mem=4G" as sacctmgr does (slurmdb_format_tres_str in
// slurmdb_defs.c), and returns it with the full names of the resources. sacctmgr also accepts the
// number of a resource in place of its name.
func (r resources) list(value string) (string, error) {
	items := strings.Split(strings.TrimPrefix(value, ","), ",")
	for i, item := range items {
		word, amount, ok := strings.Cut(item, "=")
		if !ok {
			return "", fmt.Errorf("%.40q has no amount (want %s=10)", item, builtinResources[0])
		}
		digits := strings.TrimRight(amount, "kmgtpKMGTP")
		if _, err := strconv.ParseInt(digits, 10, 64); err != nil || len(amount)-len(digits) > 1 {
			return "", fmt.Errorf("%.40q: the amount is not a whole number (want %s=10, or -1 for no limit)", item, word)
		}
		if word != "" && strings.Trim(word, "0123456789") == "" {
			continue
		}
		name, known := r.named(word)
		if !known {
			return "", fmt.Errorf("the cluster does not track %.40q (want %s)%s", word, strings.Join(r, ", "),
				r.didYouMean(word))
		}
		items[i] = name + "=" + amount
	}
	return strings.Join(items, ","), nil
}

// didYouMean suggests the resource that is nearest to a wrong name.
func (r resources) didYouMean(wrong string) string {
	known := map[string]bool{}
	for _, name := range r {
		known[name] = true
	}
	return didYouMean(strings.ToLower(wrong), known)
}

// resources checks the lists of resources in a command, and writes the full names into them.
func (s *Set) resources(c *command) error {
	for i, a := range c.set {
		if _, kind, _ := c.entity.options.find(a.word); kind != isTRES || a.value == "" {
			continue
		}
		list, err := s.tracked.list(a.value)
		if err != nil {
			return fmt.Errorf("%s=%.60s: %w", a.word, a.value, err)
		}
		c.set[i].value = list
	}
	return nil
}
