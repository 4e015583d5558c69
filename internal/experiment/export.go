package experiment

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"rmreplay/internal/bundle"
	"rmreplay/internal/formats"
	"rmreplay/internal/input"
	"rmreplay/internal/rm/slurm/conf"
	"rmreplay/internal/workload"
	"rmreplay/internal/workload/transform"
)

// Export says how [Bundle] makes a bundle: a workload and its cluster without names.
type Export struct {
	// Cluster is the cluster, and ClusterDir the directory that it was read from.
	Cluster    *conf.Cluster
	ClusterDir string
	// KeyFile holds the secret key of at least [transform.LeastKey] bytes. If it is empty, a random key is used and not
	// stored. With a random key, nobody can find the original names, or match the names with those of another bundle.
	KeyFile string
	// KeepHosts says that the names of nodes and switches are not replaced. KeepCluster says the
	// same about the name of the cluster.
	KeepHosts, KeepCluster bool
	Allow                  []string // names that need not be replaced, because they are also ordinary words
}

// BundleReport says what is in a bundle. It is the bundle's file bundle.json.
type BundleReport struct {
	Version      int          `json:"rmreplay_bundle"`
	Jobs         int          `json:"jobs"`
	First        string       `json:"first_submit"`
	Last         string       `json:"last_submit"`
	WindowStart  string       `json:"window_start,omitempty"`
	Users        int          `json:"users"`
	Reservations int          `json:"reservation_events"`
	NodeEvents   int          `json:"node_events"`
	Usage        int          `json:"usage_records"`
	Nodes        int          `json:"nodes"`
	Files        []BundleFile `json:"files"`
	// ReplacedNames counts the names that were replaced. Kept lists the kinds of names that were not replaced. A kept
	// name that contains a replaced name was changed nevertheless: Renamed has its new form.
	ReplacedNames int      `json:"replaced_names"`
	Kept          []string `json:"kept"`
	Renamed       []string `json:"renamed"`
	// LeftOut are records and files that were left out of the bundle. LeftOutKeys are keys and attributes that were left
	// out of the bundle's cluster files.
	LeftOut     []string `json:"left_out"`
	LeftOutKeys []string `json:"left_out_keys"`
	// Originals are the renamed words with their original names, and Shared the words of Slurm that are also replaced
	// names. Both lists are for the person who makes the bundle. The bundle's report does not contain them.
	Originals []transform.Found `json:"-"`
	Shared    []string          `json:"-"`
}

// BundleFile is a file of a bundle.
type BundleFile struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// bundleVersion is the version of the report.
const bundleVersion = 1

// Bundle makes a bundle of a workload. It fails with an [InputError] if a search of all words in the
// bundle finds a name that should have been replaced.
func Bundle(w *workload.Workload, how Export) (*bundle.Bundle, *BundleReport, error) {
	key, err := how.key()
	if err != nil {
		return nil, nil, inputError(err)
	}
	report := &BundleReport{Version: bundleVersion, LeftOut: []string{}}
	w = how.withoutActions(w, report)
	a, err := how.anonymizer(key, w)
	if err != nil {
		return nil, nil, inputError(fmt.Errorf("anonymizing: %w", err))
	}
	out, _, err := transform.Apply(w, transform.Environment{}, a.Step())
	if err != nil {
		return nil, nil, inputError(err)
	}
	files, err := a.Cluster(how.ClusterDir, how.Cluster.Accounts, how.Cluster.Users)
	if err != nil {
		return nil, nil, inputError(err)
	}
	var trace bytes.Buffer
	if _, err := formats.Write(&trace, out, formats.Default); err != nil {
		return nil, nil, err
	}
	b := &bundle.Bundle{Cluster: files, Workload: trace.Bytes()}
	how.describe(report, out, b, a)
	if b.Report, err = json.MarshalIndent(report, "", "  "); err != nil {
		return nil, nil, fmt.Errorf("writing %s: %w", bundle.Report, err)
	}
	if err := inventory(a, b); err != nil {
		return nil, nil, inputError(err)
	}
	return b, report, nil
}

func (how *Export) key() ([]byte, error) {
	if how.KeyFile == "" {
		key := make([]byte, 32)
		_, _ = rand.Read(key) // never fails
		return key, nil
	}
	const most = 1 << 20
	key, err := input.ReadFile(how.KeyFile, most)
	if err != nil {
		return nil, fmt.Errorf("reading key: %w", err)
	}
	return key, nil
}

// withoutActions returns the workload without administrators' actions, which are free text.
func (how *Export) withoutActions(w *workload.Workload, report *BundleReport) *workload.Workload {
	if len(w.Actions) == 0 {
		return w
	}
	report.LeftOut = append(report.LeftOut, fmt.Sprintf("%d administrators' actions, which are free text", len(w.Actions)))
	without := *w
	without.Actions = nil
	return &without
}

func (how *Export) anonymizer(key []byte, w *workload.Workload) (*transform.Anonymizer, error) {
	var nodes []string
	for _, n := range how.Cluster.Nodes {
		nodes = append(nodes, n.Name)
	}
	with := transform.Anonymity{KeepHosts: how.KeepHosts, Strict: true, Accounts: how.Cluster.Accounts, Allow: how.Allow}
	if !how.KeepCluster {
		with.Cluster = how.Cluster.Name
	}
	if !how.KeepHosts {
		for _, s := range how.Cluster.Topology {
			with.Switches = append(with.Switches, switchesOf(s)...)
		}
	}
	return transform.NewAnonymizerWith(key, w, nodes, how.Cluster.Users, with)
}

// switchesOf returns the host lists of switches in a line of topology.conf.
func switchesOf(s conf.Statement) (lists []string) {
	if strings.EqualFold(s.Key, "SwitchName") {
		lists = append(lists, s.Value)
	}
	for _, attribute := range s.Attributes {
		if strings.EqualFold(attribute.Key, "Switches") {
			lists = append(lists, attribute.Value)
		}
	}
	return lists
}

func (how *Export) describe(r *BundleReport, w *workload.Workload, b *bundle.Bundle, a *transform.Anonymizer) {
	r.Jobs, r.Users, r.Reservations, r.NodeEvents = w.Jobs.Len(), len(w.Submitters()), len(w.Reservations), len(w.NodeEvents)
	r.Usage, r.Nodes = len(w.Usage), len(how.Cluster.Nodes)
	if r.Jobs > 0 {
		r.First, r.Last = w.Jobs.Submit(0).String(), w.Jobs.Submit(r.Jobs-1).String()
	}
	if w.Start != 0 {
		r.WindowStart = w.Start.String()
	}
	for name, text := range b.Cluster {
		r.Files = append(r.Files, BundleFile{"cluster/" + name, len(text)})
	}
	slices.SortFunc(r.Files, func(a, b BundleFile) int { return strings.Compare(a.Name, b.Name) })
	r.Files = append(r.Files, BundleFile{bundle.Workload, len(b.Workload)})
	r.ReplacedNames, r.LeftOutKeys = a.Replaced(), append([]string{}, a.LeftOut()...)
	r.Renamed, r.Originals, r.Shared = []string{}, a.Renamed(), a.Shared()
	for _, found := range r.Originals {
		r.Renamed = append(r.Renamed, found.New)
	}
	slices.Sort(r.Renamed)
	r.Kept = []string{"partitions", "QOS", "features", "licenses", "generic resources", "times", "sizes"}
	if how.KeepHosts {
		r.Kept = append(r.Kept, "hosts")
	}
	if how.KeepCluster {
		r.Kept = append(r.Kept, "cluster")
	}
	if how.Cluster.TopologyYAML != nil {
		r.LeftOut = append(r.LeftOut, "topology.yaml")
	}
	r.LeftOut = append(r.LeftOut, "comments, scripts, command lines, paths, addresses, passwords")
}

// inventory returns an error if a word of the bundle still contains a name that should have been replaced.
func inventory(a *transform.Anonymizer, b *bundle.Bundle) error {
	left := a.Inventory(bundle.Workload, b.Workload)
	for _, name := range slices.Sorted(maps.Keys(b.Cluster)) {
		left = append(left, a.Inventory(filepath.Join("cluster", name), []byte(b.Cluster[name]))...)
	}
	if err := transform.ErrRemains(left); err != nil {
		return fmt.Errorf("checking the bundle: %w (want --allow NAME if the word has another meaning there)", err)
	}
	return nil
}
