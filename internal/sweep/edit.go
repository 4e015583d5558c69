package sweep

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"rmreplay/internal/rm/slurm/conf"
)

// editCluster copies a cluster directory to a new directory and sets keys of slurm.conf to new
// values. It refuses keys that slurm.conf may have many times, such as NodeName, because the
// edit would be ambiguous. A cluster with other nodes needs its own directory.
func editCluster(from, to string, keys Options) error {
	for _, k := range keys {
		if err := checkKey(k); err != nil {
			return err
		}
	}
	site, err := conf.Open(from)
	if err != nil {
		return err
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return fmt.Errorf("copying cluster: %w", err)
	}
	path := filepath.Join(to, "slurm.conf")
	text, err := os.ReadFile(site.Path)
	if err != nil {
		return fmt.Errorf("editing slurm.conf: %w", err)
	}
	if err := os.WriteFile(path, []byte(editText(string(text), site, keys)), 0o666); err != nil {
		return fmt.Errorf("editing slurm.conf: %w", err)
	}
	edited, err := conf.Open(to)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if value, _ := edited.Get(k.Name); value != k.Value {
			return fmt.Errorf("editing slurm.conf: %s is %q after it was set to %q", k.Name, value, k.Value)
		}
	}
	return nil
}

// checkKey checks a key of slurm.conf with its new value.
func checkKey(k Option) error {
	if strings.EqualFold(k.Name, "Include") || repeats(k.Name) {
		return fmt.Errorf("%s: not a key with one value (want another cluster directory)", k.Name)
	}
	return conf.CheckKey(k.Name, k.Value)
}

// repeats reports whether slurm.conf may have several lines that begin with the key.
func repeats(key string) bool {
	for _, k := range []string{"NodeName", "PartitionName", "DownNodes", "NodeSet", "FrontendName"} {
		if strings.EqualFold(k, key) {
			return true
		}
	}
	return false
}

// editText comments out the lines that only hold replaced keys, and appends the new keys. If a
// key occurs twice, Slurm uses the last occurrence.
func editText(text string, site *conf.Cluster, keys Options) string {
	on := map[int]int{} // number of statements on each line
	for _, s := range site.Statements {
		if s.File == site.Path {
			on[s.Line]++
		}
	}
	lines := strings.Split(text, "\n")
	for _, s := range site.Statements {
		if s.File != site.Path || on[s.Line] != 1 || s.Line > len(lines) {
			continue
		}
		for _, k := range keys {
			if strings.EqualFold(k.Name, s.Key) {
				replace(lines[s.Line-1:])
			}
		}
	}
	var b strings.Builder
	b.WriteString(strings.TrimRight(strings.Join(lines, "\n"), "\n"))
	b.WriteString("\n\n# Set by the experiment\n")
	for _, k := range keys {
		b.WriteString(conf.Statement{Key: k.Name, Value: k.Value}.String() + "\n")
	}
	return b.String()
}

// replace comments out a line and its continuation lines.
func replace(lines []string) {
	for i, line := range lines {
		line, continued := strings.CutSuffix(line, `\`)
		lines[i] = "# replaced below: " + line
		if !continued {
			return
		}
	}
}
