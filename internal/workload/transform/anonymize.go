package transform

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"rmreplay/internal/hostlist"
	"rmreplay/internal/hpc"
	"rmreplay/internal/slurmspec/sbatch"
	"rmreplay/internal/workload"
)

// LeastKey is the length of the shortest key that [NewAnonymizer] accepts, in bytes. With a
// shorter key, an attacker who guesses a name could confirm it by trying all keys.
const LeastKey = 16

// Anonymizer replaces names by the HMAC-SHA-256 of the name under a key. Only the holder of
// the key can find a name again, by trying names. The same key gives the same replacements,
// so that names match across workloads.
//
// The names of nodes keep their numbers and their order, because schedules depend on both:
// only the text around the numbers is replaced.
type Anonymizer struct {
	key       []byte
	patterns  map[string]string // maps the text parts of node names to their replacements
	uids      map[uint32]uint32
	gids      map[uint32]uint32
	originals map[string]string // all names that were replaced, each with its kind
	with      Anonymity
	replaced  map[string]bool   // the replacements, in lower case
	leftOut   map[string]bool   // keys and attributes of the configuration
	scrubbed  map[string]string // words and their replacements by scrub
	shared    map[string]bool   // words of Slurm that are also replaced names

	// The data of the methods named, contained and isNode. The first call of each method makes them.
	index    map[string]indexed
	lengths  []int
	counted  int
	newNodes map[string]bool
}

// Anonymity says what an [Anonymizer] replaces beyond the names of users, accounts, jobs and nodes.
type Anonymity struct {
	// KeepHosts keeps the names of nodes and switches; otherwise Switches, which are host lists, are replaced like nodes.
	KeepHosts bool
	Switches  []string
	// Cluster is the name of the cluster, which is replaced. If it is empty, the name stays.
	Cluster string
	// Strict also replaces names that normally stay, such as partitions, QOS and features, if they
	// contain a replaced name.
	Strict bool
	// Allow has names that are also words with another meaning, for example if a user has the name of an option of a
	// site's own plugin. Words in Allow may stay, but not where they are names of users, accounts, jobs or nodes.
	Allow []string
	// Accounts are the commands for sacctmgr, whose names are replaced.
	Accounts []byte
}

// NewAnonymizer prepares the anonymization of a workload and of its cluster, if it has a cluster. It needs all nodes
// and users before it renames any of them. It returns an error for a key shorter than [LeastKey] and for host lists
// that it cannot read.
func NewAnonymizer(key []byte, w *workload.Workload, nodes []string, users []hpc.User) (*Anonymizer, error) {
	return NewAnonymizerWith(key, w, nodes, users, Anonymity{})
}

// NewAnonymizerWith is [NewAnonymizer] with options.
func NewAnonymizerWith(key []byte, w *workload.Workload, nodes []string, users []hpc.User, with Anonymity) (*Anonymizer, error) {
	if len(key) < LeastKey {
		return nil, fmt.Errorf("a key of %d bytes (want at least %d)", len(key), LeastKey)
	}
	a := &Anonymizer{key: key, patterns: map[string]string{}, originals: map[string]string{}, with: with, replaced: map[string]bool{},
		leftOut: map[string]bool{}, scrubbed: map[string]string{}, shared: map[string]bool{}}
	for _, list := range with.Switches {
		names, err := hostlist.Expand(list)
		if err != nil {
			return nil, err
		}
		nodes = append(slices.Clone(nodes), names...)
	}
	if err := a.collectNodes(w, nodes); err != nil {
		return nil, err
	}
	a.collectIDs(append(slices.Clone(w.Users), users...))
	return a, a.collectNames(w, users)
}

// firstAnonymousID is the lowest new number of a user or a group.
const firstAnonymousID = 20001

// collectIDs gives users and groups new numbers, in an order that depends on the key: the order of the old numbers
// would show which users came to the site earlier.
func (a *Anonymizer) collectIDs(users []hpc.User) {
	var uids, gids []uint32
	for _, u := range users {
		uids, gids = append(uids, u.UID), append(gids, u.GID)
	}
	a.uids, a.gids = a.renumber("uid", uids), a.renumber("gid", gids)
}

func (a *Anonymizer) renumber(kind string, ids []uint32) map[uint32]uint32 {
	macs := map[uint32][]byte{}
	for _, id := range ids {
		macs[id] = a.mac(kind, fmt.Sprint(id))
	}
	order := slices.SortedFunc(maps.Keys(macs), func(x, y uint32) int { return bytes.Compare(macs[x], macs[y]) })
	m := make(map[uint32]uint32, len(order))
	for i, id := range order {
		m[id] = firstAnonymousID + uint32(i)
	}
	return m
}

// collectNodes ranks the patterns of all node names, so that the replacements sort like the
// originals: slurmctld sorts its nodes by name.
func (a *Anonymizer) collectNodes(w *workload.Workload, names []string) error {
	lists := []string{}
	for _, job := range w.Jobs.All() {
		lists = append(lists, job.NodeList, job.Exclude)
		if job.Recorded != nil {
			_ = job.Recorded.NodeLists(func(list *string) error {
				lists = append(lists, *list)
				return nil
			})
		}
	}
	for _, ev := range w.NodeEvents {
		lists = append(lists, ev.Nodes)
	}
	for _, ev := range w.Reservations {
		lists = append(lists, ev.Nodes)
	}
	if w.Completion != nil {
		for i := range w.Completion.Site.Partitions {
			lists = append(lists, w.Completion.Site.Partitions[i].NodeList)
		}
	}
	seen := map[string]bool{}
	for _, list := range lists {
		if seen[list] || list == allNodes {
			continue
		}
		seen[list] = true
		expanded, err := hostlist.Expand(list)
		if err != nil {
			return err
		}
		names = append(names, expanded...)
	}
	var patterns []string
	for _, name := range names {
		if !a.with.KeepHosts {
			a.note(kindNode, name)
		}
		pattern, _ := splitDigits(name)
		patterns = append(patterns, strings.Join(pattern, "\x00"))
	}
	slices.Sort(patterns)
	for i, pattern := range slices.Compact(patterns) {
		a.patterns[pattern] = fmt.Sprintf("n%03d%s", i, letters(a.mac("node", pattern))[:6])
	}
	return nil
}

const allNodes = "ALL"

// splitDigits splits a name into its numbers and the texts around them. There is one more text than
// numbers.
func splitDigits(name string) (texts, numbers []string) {
	start, inNumber := 0, false
	for i := 0; i <= len(name); i++ {
		digit := i < len(name) && name[i] >= '0' && name[i] <= '9'
		if i < len(name) && digit == inNumber {
			continue
		}
		if inNumber {
			numbers = append(numbers, name[start:i])
		} else {
			texts = append(texts, name[start:i])
		}
		start, inNumber = i, digit
	}
	if len(texts) == len(numbers) {
		texts = append(texts, "")
	}
	return texts, numbers
}

func (a *Anonymizer) mac(kind, text string) []byte {
	h := hmac.New(sha256.New, a.key)
	h.Write([]byte(kind + "\x00" + text)) // a hash never returns an error
	return h.Sum(nil)
}

// lower is base32 in lower case, because Slurm converts accounts to lower case.
var lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// letters encodes with letters only, so that the replacement does not merge with the
// numbers of a node's name.
func letters(mac []byte) string {
	out := make([]byte, len(mac))
	for i, b := range mac {
		out[i] = 'a' + b%26
	}
	return string(out)
}

// word replaces a name of a kind. An empty name stays empty. With 60 bits of the HMAC, the names of
// a million users get different replacements.
func (a *Anonymizer) word(kind, name string) string {
	if name == "" {
		return ""
	}
	a.note(kind, name)
	return a.replacement(kind, name)
}

func (a *Anonymizer) replacement(kind, name string) string {
	replacement := kind[:1] + lower.EncodeToString(a.mac(kind, name))[:12]
	a.replaced[replacement] = true
	return replacement
}

// The kinds of names. A name of two kinds gets two replacements.
const (
	kindUser        = "user"
	kindGroup       = "group"
	kindAccount     = "account"
	kindJobName     = "name"
	kindWCKey       = "wckey"
	kindReservation = "reservation"
	kindMCS         = "mcs"
	kindNode        = "node"
)

// note records a name that is replaced. If a name has several kinds, note keeps a kind with the smallest [longFrom],
// because the search then finds the name in the most words.
func (a *Anonymizer) note(kind, name string) {
	if old, ok := a.originals[name]; !ok || longFrom(kind) < longFrom(old) {
		a.originals[name] = kind
	}
}

// words replaces the names of a list. A "-" or "+" in front of a name stays.
func (a *Anonymizer) words(kind string, list []string) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, name := range list {
		bare := strings.TrimLeft(name, "+-")
		out[i] = name[:len(name)-len(bare)] + a.word(kind, bare)
	}
	return out
}

func (a *Anonymizer) commaList(kind, list string) string {
	if list == "" {
		return ""
	}
	return strings.Join(a.words(kind, strings.Split(list, ",")), ",")
}

// nodes replaces the names of a host list.
func (a *Anonymizer) nodes(list string) (string, error) {
	if list == "" || list == allNodes || a.with.KeepHosts {
		return list, nil
	}
	names, err := hostlist.Expand(list)
	if err != nil {
		return "", err
	}
	for i, name := range names {
		texts, numbers := splitDigits(name)
		replacement, ok := a.patterns[strings.Join(texts, "\x00")]
		if !ok {
			return "", fmt.Errorf("node %s is not one of the cluster's or the workload's", name)
		}
		names[i] = replacement
		if len(numbers) > 0 {
			names[i] += strings.Join(numbers, "x")
		}
	}
	return hostlist.Compress(names), nil
}

// Step returns the step that anonymizes the workload for which the anonymizer was made. It replaces
// the names of users, groups, accounts, jobs, reservations, WCKeys, MCS labels and nodes. The IDs
// of jobs become numbers in the order of submission. Comments, reasons, burst buffers, the source
// and the lines of logs that are kept beside the jobs are removed. The names of partitions, QOS,
// features, licenses and generic resources stay. The step fails for a workload with administrators'
// actions, which are free text.
func (a *Anonymizer) Step() Step {
	return Step{"--anonymize", func(w *workload.Workload, env *Environment) error {
		if len(w.Actions) > 0 {
			return errors.New("the workload has administrators' actions, which are free text (remove their records first)")
		}
		env.renumbered = true
		ids := a.jobIDs(w)
		for i, job := range w.Jobs.All() {
			if err := a.job(job, ids); err != nil {
				return fmt.Errorf("job %s: %w", job.ID, err)
			}
			a.dependency(job, ids)
			w.Jobs.Set(i, job)
		}
		w.Jobs.DropOrigins() // records of the source have the original names
		if err := a.events(w); err != nil {
			return err
		}
		for i, u := range w.Users {
			w.Users[i] = a.user(u)
		}
		slices.SortFunc(w.Users, func(x, y hpc.User) int { return cmp.Compare(x.UID, y.UID) })
		for i, u := range w.Usage {
			w.Usage[i].Account, w.Usage[i].User = a.word(kindAccount, u.Account), a.word(kindUser, u.User)
		}
		for i := range w.FileSystems {
			w.FileSystems[i].Name = a.scrub(w.FileSystems[i].Name)
		}
		if c := w.Completion; c != nil { // its rules and facts name partitions, QOS and the log from which rules learned
			var err error
			if w.Completion, err = a.completion(c); err != nil {
				return err
			}
		}
		w.Source, w.Header, w.Unusable = "anonymous", nil, nil
		for i, text := range w.Transforms { // a filter may name a user
			w.Transforms[i], _, _ = strings.Cut(text, " ")
		}
		return nil
	}}
}

// jobIDs returns the new ID of each job. A task that a window made a job of its own, ARRAY_TASK, keeps
// the array's name in its ID, because the model of slurmctld counts the task towards the array's limit.
func (a *Anonymizer) jobIDs(w *workload.Workload) map[string]string {
	width := len(fmt.Sprint(w.Jobs.Len()))
	ids, arrays := make(map[string]string, w.Jobs.Len()), map[string]bool{}
	for i, job := range w.Jobs.All() {
		ids[job.ID] = fmt.Sprintf("j%0*d", width, i+1)
		arrays[job.ID] = job.Array != ""
	}
	plain := maps.Clone(ids)
	for id := range plain {
		if array, _, ok := hpc.SplitTask(id); ok && arrays[array] {
			ids[id] = plain[array] + strings.TrimPrefix(id, array)
		}
	}
	return ids
}

func (a *Anonymizer) job(job *hpc.Job, ids map[string]string) (err error) {
	if job.NodeList, err = a.nodes(job.NodeList); err != nil {
		return err
	}
	if job.Exclude, err = a.nodes(job.Exclude); err != nil {
		return err
	}
	if job.Recorded != nil {
		err := job.Recorded.NodeLists(func(list *string) (err error) {
			*list, err = a.nodes(*list)
			return err
		})
		if err != nil {
			return err
		}
	}
	job.ID = ids[job.ID]
	job.Name = a.word(kindJobName, job.Name)
	job.User = a.word(kindUser, job.User)
	job.Group = a.word(kindGroup, job.Group)
	job.Account = a.word(kindAccount, job.Account)
	job.WCKey = a.word(kindWCKey, job.WCKey)
	job.MCSLabel = a.word(kindMCS, job.MCSLabel)
	job.Reservation = a.commaList(kindReservation, job.Reservation)
	job.Comment, job.BurstBuffer, job.ClusterConstraint = "", "", ""
	job.Made = a.made(job.Made)
	for _, text := range []*string{&job.Partition, &job.QOS, &job.Constraint, &job.Prefer, &job.Licenses, &job.GRES, &job.GPUs,
		&job.GPUsPerNode, &job.GPUsPerSocket, &job.GPUsPerTask} {
		*text = a.scrub(*text)
	}
	for i := range job.IO {
		job.IO[i].FileSystem = a.scrub(job.IO[i].FileSystem)
	}
	return nil
}

// dependency renames the jobs in a dependency. It removes a dependency that cannot be read,
// because it may contain names.
func (a *Anonymizer) dependency(job *hpc.Job, ids map[string]string) {
	if _, err := sbatch.ParseDependency(job.Dependency); err != nil {
		job.Dependency = ""
	}
	renameOthers(job, func(id string) string { return ids[id] })
}

func (a *Anonymizer) events(w *workload.Workload) (err error) {
	for i := range w.NodeEvents {
		ev := &w.NodeEvents[i]
		if ev.Nodes, err = a.nodes(ev.Nodes); err != nil {
			return fmt.Errorf("node event at %s: %w", ev.At, err)
		}
		if ev.Reason != "" {
			ev.Reason = "anonymous"
		}
	}
	for i := range w.Reservations {
		ev := &w.Reservations[i]
		if ev.Nodes, err = a.nodes(ev.Nodes); err != nil {
			return fmt.Errorf("reservation %s: %w", ev.Name, err)
		}
		ev.Name = a.word(kindReservation, ev.Name)
		ev.Users, ev.Accounts = a.words(kindUser, ev.Users), a.words(kindAccount, ev.Accounts)
		ev.Partition, ev.Licenses, ev.Features = a.scrub(ev.Partition), a.scrub(ev.Licenses), a.scrub(ev.Features)
	}
	return nil
}

func (a *Anonymizer) user(u hpc.User) hpc.User {
	return hpc.User{Name: a.word(kindUser, u.Name), UID: a.uids[u.UID], Group: a.word(kindGroup, u.Group), GID: a.gids[u.GID], Groups: a.words(kindGroup, u.Groups)}
}

func isNameRune(r rune) bool {
	return r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 127
}
